"""Keys of TLS, SASL, delegation tokens and encrypted values.

None of them acts in this version. A listener that would need them does not start, so no connection is less safe than
its configuration says.
"""

from typing import Final

from broker.config_keys.key import (
    CLASS,
    DOUBLE,
    INT,
    LIST,
    LONG,
    LOW,
    MEDIUM,
    PASSWORD,
    SHORT,
    STRING,
    ConfigKey,
    at_least,
    one_of,
)

TLS_KEYS: Final = (
    ConfigKey("connections.max.reauth.ms", LONG, 0, MEDIUM, "Longest life of a login; 0 sets no bound."),
    ConfigKey("security.providers", STRING, None, LOW, "Java classes of security providers."),
    ConfigKey(
        "principal.builder.class", CLASS, None, MEDIUM, "Class that names the peer of a connection.", dynamic=True
    ),
    ConfigKey("ssl.protocol", STRING, "TLSv1.3", MEDIUM, "TLS version to open with.", dynamic=True),
    ConfigKey("ssl.provider", STRING, None, MEDIUM, "Java's provider of TLS.", dynamic=True),
    ConfigKey("ssl.enabled.protocols", LIST, ["TLSv1.2", "TLSv1.3"], MEDIUM, "TLS versions allowed.", dynamic=True),
    ConfigKey("ssl.keystore.type", STRING, "JKS", MEDIUM, "Format of the key store.", dynamic=True),
    ConfigKey("ssl.keystore.location", STRING, None, MEDIUM, "File of the key store.", dynamic=True),
    ConfigKey("ssl.keystore.password", PASSWORD, None, MEDIUM, "Password of the key store.", dynamic=True),
    ConfigKey("ssl.key.password", PASSWORD, None, MEDIUM, "Password of the private key.", dynamic=True),
    ConfigKey("ssl.keystore.key", PASSWORD, None, MEDIUM, "Private key, as PEM.", dynamic=True),
    ConfigKey(
        "ssl.keystore.certificate.chain",
        PASSWORD,
        None,
        MEDIUM,
        "Certificates of the private key, as PEM.",
        dynamic=True,
    ),
    ConfigKey("ssl.truststore.type", STRING, "JKS", MEDIUM, "Format of the trust store.", dynamic=True),
    ConfigKey("ssl.truststore.location", STRING, None, MEDIUM, "File of the trust store.", dynamic=True),
    ConfigKey("ssl.truststore.password", PASSWORD, None, MEDIUM, "Password of the trust store.", dynamic=True),
    ConfigKey("ssl.truststore.certificates", PASSWORD, None, MEDIUM, "Trusted certificates, as PEM.", dynamic=True),
    ConfigKey("ssl.keymanager.algorithm", STRING, "SunX509", MEDIUM, "Java's name of the key manager.", dynamic=True),
    ConfigKey("ssl.trustmanager.algorithm", STRING, "PKIX", MEDIUM, "Java's name of the trust manager.", dynamic=True),
    ConfigKey(
        "ssl.endpoint.identification.algorithm",
        STRING,
        "https",
        LOW,
        "How a peer's host name is held against its certificate; empty turns it off.",
        dynamic=True,
    ),
    ConfigKey("ssl.secure.random.implementation", STRING, None, LOW, "Java's source of randomness.", dynamic=True),
    ConfigKey(
        "ssl.client.auth",
        STRING,
        "none",
        MEDIUM,
        "Whether a client must show a certificate.",
        one_of("required", "requested", "none"),
        dynamic=True,
    ),
    ConfigKey("ssl.cipher.suites", LIST, [], MEDIUM, "Cipher suites allowed; empty allows all.", dynamic=True),
    ConfigKey(
        "ssl.principal.mapping.rules", STRING, "DEFAULT", LOW, "Rules that make a peer's name of its certificate's."
    ),
    ConfigKey("ssl.engine.factory.class", CLASS, None, LOW, "Class that makes TLS engines.", dynamic=True),
)

SASL_KEYS: Final = (
    ConfigKey(
        "sasl.mechanism.inter.broker.protocol", STRING, "GSSAPI", MEDIUM, "Mechanism between brokers.", dynamic=True
    ),
    ConfigKey("sasl.jaas.config", PASSWORD, None, MEDIUM, "Login of this broker, in JAAS's form.", dynamic=True),
    ConfigKey("sasl.enabled.mechanisms", LIST, ["GSSAPI"], MEDIUM, "Mechanisms that clients may use.", dynamic=True),
    ConfigKey("sasl.server.callback.handler.class", CLASS, None, MEDIUM, "Class that checks logins."),
    ConfigKey("sasl.client.callback.handler.class", CLASS, None, MEDIUM, "Class that answers for this broker's login."),
    ConfigKey("sasl.login.class", CLASS, None, MEDIUM, "Class that logs this broker in."),
    ConfigKey("sasl.login.callback.handler.class", CLASS, None, MEDIUM, "Class that answers when logging in."),
    ConfigKey(
        "sasl.kerberos.service.name", STRING, None, MEDIUM, "Kerberos name that brokers run under.", dynamic=True
    ),
    ConfigKey("sasl.kerberos.kinit.cmd", STRING, "/usr/bin/kinit", MEDIUM, "Path of kinit.", dynamic=True),
    ConfigKey(
        "sasl.kerberos.ticket.renew.window.factor",
        DOUBLE,
        0.8,
        MEDIUM,
        "Share of a ticket's life after which it is renewed.",
        dynamic=True,
    ),
    ConfigKey(
        "sasl.kerberos.ticket.renew.jitter", DOUBLE, 0.05, MEDIUM, "Random share added to that time.", dynamic=True
    ),
    ConfigKey(
        "sasl.kerberos.min.time.before.relogin", LONG, 60000, MEDIUM, "Shortest time between two logins.", dynamic=True
    ),
    ConfigKey(
        "sasl.kerberos.principal.to.local.rules",
        LIST,
        ["DEFAULT"],
        MEDIUM,
        "Rules that make a short name of a Kerberos name.",
        dynamic=True,
    ),
    ConfigKey(
        "sasl.login.refresh.window.factor",
        DOUBLE,
        0.8,
        MEDIUM,
        "Share of a login's life after which it is refreshed.",
        dynamic=True,
    ),
    ConfigKey(
        "sasl.login.refresh.window.jitter", DOUBLE, 0.05, MEDIUM, "Random share added to that time.", dynamic=True
    ),
    ConfigKey(
        "sasl.login.refresh.min.period.seconds",
        SHORT,
        60,
        MEDIUM,
        "Shortest time between two refreshes.",
        dynamic=True,
    ),
    ConfigKey(
        "sasl.login.refresh.buffer.seconds",
        SHORT,
        300,
        MEDIUM,
        "Time before the end of a login by which it is refreshed.",
        dynamic=True,
    ),
)

TOKEN_KEYS: Final = (
    ConfigKey("delegation.token.master.key", PASSWORD, None, MEDIUM, "Secret that delegation tokens are made with."),
    ConfigKey("delegation.token.max.lifetime.ms", LONG, 604800000, MEDIUM, "Longest life of a token.", at_least(1)),
    ConfigKey(
        "delegation.token.expiry.time.ms", LONG, 86400000, MEDIUM, "Life of a token between two renewals.", at_least(1)
    ),
    ConfigKey(
        "delegation.token.expiry.check.interval.ms",
        LONG,
        3600000,
        LOW,
        "How often old tokens are removed.",
        at_least(1),
    ),
)

PASSWORD_ENCODER_KEYS: Final = (
    ConfigKey("password.encoder.secret", PASSWORD, None, MEDIUM, "Secret that encrypts passwords in ZooKeeper."),
    ConfigKey("password.encoder.old.secret", PASSWORD, None, MEDIUM, "The secret before a change of it."),
    ConfigKey("password.encoder.keyfactory.algorithm", STRING, None, LOW, "Java's name of the key factory."),
    ConfigKey("password.encoder.cipher.algorithm", STRING, "AES/CBC/PKCS5Padding", LOW, "Java's name of the cipher."),
    ConfigKey("password.encoder.key.length", INT, 128, LOW, "Bits of the key.", at_least(8)),
    ConfigKey("password.encoder.iterations", INT, 4096, LOW, "Rounds of the key's derivation.", at_least(1024)),
)

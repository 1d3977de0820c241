# The image of one broker. `docker build .` and `docker compose build` make it; nothing in it needs Java.
FROM python:3.11-slim-bookworm AS build
RUN python3 -m venv /opt/barnabas
WORKDIR /source
COPY pyproject.toml constraints.txt README.md ./
COPY barnabas barnabas
COPY broker broker
COPY controller controller
COPY replication replication
COPY zk_schema zk_schema
RUN /opt/barnabas/bin/pip install --no-cache-dir --no-compile --constraint constraints.txt . \
 && /opt/barnabas/bin/python -m compileall -q /opt/barnabas/lib

FROM python:3.11-slim-bookworm
# Numbers and names that a volume keeps: whoever mounts a directory of the host has to give it to this user.
RUN groupadd --system --gid 1000 barnabas \
 && useradd --system --uid 1000 --gid 1000 --home-dir /var/lib/barnabas --shell /usr/sbin/nologin barnabas \
 && mkdir -p /var/lib/barnabas \
 && chown barnabas:barnabas /var/lib/barnabas
COPY --from=build /opt/barnabas /opt/barnabas
ENV PATH=/opt/barnabas/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    KAFKA_LOG_DIRS=/var/lib/barnabas/data
USER barnabas
WORKDIR /var/lib/barnabas
VOLUME /var/lib/barnabas
EXPOSE 9092
STOPSIGNAL SIGTERM
CMD ["barnabas", "broker", "--environment"]

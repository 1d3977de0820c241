# The image of one broker. `docker build .` and `docker compose build` make it; nothing in it needs Java.
FROM python:3.11-slim-bookworm AS build
# What the modules on the way of records are compiled with; a Python of Debian's own has its headers in a package.
RUN apt-get update -qq \
 && headers=$(python3 -c 'import sysconfig; print(sysconfig.get_path("include"))') \
 && if [ -e "$headers/Python.h" ]; then package=; else package=python3-dev; fi \
 && apt-get install -y -qq --no-install-recommends gcc libc6-dev $package >/dev/null
RUN python3 -m venv /opt/compiler && python3 -m venv /opt/barnabas
WORKDIR /source
COPY pyproject.toml constraints.txt README.md ./
COPY barnabas barnabas
COPY broker broker
COPY controller controller
COPY replication replication
COPY zk_schema zk_schema
RUN /opt/compiler/bin/pip install --no-cache-dir --no-compile --constraint constraints.txt '.[compiled]' \
 && HATCH_BUILD_HOOK_ENABLE_MYPYC=true /opt/compiler/bin/python -m hatchling build -t wheel
RUN /opt/barnabas/bin/pip install --no-cache-dir --no-compile --constraint constraints.txt dist/*.whl \
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

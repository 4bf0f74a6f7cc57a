# The service with its embedding model. Build: docker build --tag retentive .
# Further extras, for a store on a server: --build-arg EXTRAS=server,postgres
ARG PYTHON=3.12

FROM python:${PYTHON}-slim AS build
ARG EXTRAS=server
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /source
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY docs docs
COPY src src
RUN pip wheel --no-deps --wheel-dir /wheels . \
    && python -m venv --without-pip /opt/retentive \
    && pip --python /opt/retentive/bin/python install --no-compile --constraint constraints.txt \
        "retentive[${EXTRAS}] @ file://$(ls /wheels/retentive-*.whl)"

FROM python:${PYTHON}-slim
LABEL org.opencontainers.image.title="Retentive" \
      org.opencontainers.image.description="Memory for AI agents" \
      org.opencontainers.image.licenses="Apache-2.0"
RUN useradd --system --uid 10001 --user-group --home-dir /data --no-create-home --shell /usr/sbin/nologin retentive \
    && install --directory --owner=retentive --group=retentive --mode=0700 /data
COPY --from=build /opt/retentive /opt/retentive
# Everything that is written is in /data, also the caches; the root file system can be read-only.
ENV PATH=/opt/retentive/bin:$PATH \
    HOME=/data \
    SQLITE_TMPDIR=/data \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    RETENTIVE_STORE=/data/memories.db \
    RETENTIVE_SERVER_HOST=0.0.0.0 \
    RETENTIVE_SERVER_LOG=json
USER 10001:10001
WORKDIR /data
VOLUME /data
EXPOSE 4000
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:4000/healthz', timeout=4)"]
ENTRYPOINT ["retentive"]
CMD ["serve"]

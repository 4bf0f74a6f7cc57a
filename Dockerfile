# The service with its embedding model. Build: docker build --tag retentive .
# Further extras, for a store on a server: --build-arg EXTRAS=server,postgres
ARG PYTHON=3.12

FROM python:${PYTHON}-slim AS build
ARG EXTRAS=server
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /source
# The compiler is for the library that computes the models, binutils for what is removed below.
# hadolint ignore=DL3008
RUN apt-get update && apt-get install --yes --no-install-recommends binutils gcc libc6-dev && rm -rf /var/lib/apt/lists/*
COPY pyproject.toml hatch_build.py README.md LICENSE constraints.txt ./
COPY docs docs
COPY src src
RUN pip wheel --no-deps --wheel-dir /wheels . \
    && python -m venv --without-pip /opt/retentive \
    && pip --python /opt/retentive/bin/python install --no-compile --constraint constraints.txt \
        "retentive[${EXTRAS}] @ file://$(ls /wheels/retentive-*.whl)"
# What no process here reads, a quarter of the size: a second copy of onnxruntime for programs in C, downloads from
# Hugging Face, tests and type stubs of packages, symbols for debuggers. Tools have moved the parts of the libraries in
# `*.libs`, which do not load any more if they are stripped.
RUN rm /opt/retentive/lib/python*/site-packages/onnxruntime/capi/libonnxruntime.so.* \
    && pip --python /opt/retentive/bin/python uninstall --yes hf-xet \
    && find /opt/retentive -depth -type d -name tests -exec rm -r {} + \
    && find /opt/retentive -name '*.pyi' -delete \
    && find /opt/retentive -path '*.libs' -prune -o -name '*.so' -type f -exec strip --strip-unneeded {} +

FROM python:${PYTHON}-slim
LABEL org.opencontainers.image.title="Retentive" \
      org.opencontainers.image.description="Memory for AI agents" \
      org.opencontainers.image.licenses="Apache-2.0"
RUN groupadd --gid 10001 retentive \
    && useradd --uid 10001 --gid 10001 --home-dir /data --no-create-home --shell /usr/sbin/nologin retentive \
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
    CMD ["python", "-c", "import socket; c = socket.create_connection(('127.0.0.1', 4000), 4); c.sendall(b'GET /healthz HTTP/1.0\\r\\nHost: localhost\\r\\n\\r\\n'); exit(b' 200 ' not in c.recv(64))"]
ENTRYPOINT ["retentive"]
CMD ["serve"]

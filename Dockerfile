# Two images: `core`, and `full` with extras (by default all; docs/installing.md). Both run without root.
#   docker build --target core -t mathir-harness .
#   docker build --target full -t mathir-harness:full .
#   docker build --target full --build-arg EXTRAS=server,postgres -t harness-lab .
# The newest digest of a tag: docker buildx imagetools inspect python:3.13-slim-trixie
ARG BASE=python:3.13-slim-trixie@sha256:9d2e5553305c7c7b0097999bb17187c69b921ccd6bc9d40e4bb5ebe652c00285

# The base image fixes the release of Debian; its compiler is not in the images.
FROM ${BASE} AS build
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
RUN python -m venv /opt/harness \
    && /opt/harness/bin/pip install --no-cache-dir -c requirements.lock .

# From its own index, PyTorch comes without CUDA; TORCH_INDEX=https://pypi.org/simple takes the build with CUDA.
FROM build AS build-full
ARG EXTRAS=all
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
RUN /opt/harness/bin/pip install --no-cache-dir -c requirements.lock --extra-index-url "${TORCH_INDEX}" ".[${EXTRAS}]"

FROM ${BASE} AS base
LABEL org.opencontainers.image.title="mathir-harness" \
      org.opencontainers.image.description="Evaluation harness for mathematical information retrieval" \
      org.opencontainers.image.licenses="Apache-2.0"
# The caches of other libraries lie in $HOME; any user (--user) may write to /cache.
RUN useradd --uid 10001 --home-dir /data --no-create-home harness \
    && install --directory --owner=harness --group=harness --mode=700 /data \
    && install --directory --mode=1777 /cache
ENV PATH=/opt/harness/bin:$PATH HOME=/data HARNESS_CACHE=/cache PYTHONDONTWRITEBYTECODE=1
WORKDIR /data
VOLUME ["/data", "/cache"]
USER 10001:10001
ENTRYPOINT ["harness"]
CMD ["--help"]

FROM base AS full
COPY --from=build-full /opt/harness /opt/harness

# The last stage is what a build without --target makes.
FROM base AS core
COPY --from=build /opt/harness /opt/harness

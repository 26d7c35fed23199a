# One image with all programs of Fairlead, for sidecar, injector and node.
#
#   docker build -t fairlead .                       or buildah bud
#   docker build --build-arg BUILD_BASE=debian:12@sha256:… .     pinned
#
# BUILD_BASE is Debian 12. The last stage contains only the programs, the shared libraries that they
# load, and configuration: no shell and no package manager. Set BASE=debian:12-slim for an image with a
# shell. The image runs as uid 2201.
ARG BUILD_BASE=debian:12
ARG BASE=scratch

FROM ${BUILD_BASE} AS build
COPY scripts/bootstrap.sh /src/scripts/bootstrap.sh
RUN apt-get update && /src/scripts/bootstrap.sh build
COPY . /src
WORKDIR /src
ARG JOBS=2
RUN cmake --preset release -DFAIRLEAD_TESTS=OFF -DFAIRLEAD_BENCHMARKS=OFF \
 && cmake --build --preset release -j ${JOBS}
RUN docker/collect.sh build/release /image

FROM ${BASE}
ARG VERSION=0.1.0
ARG REVISION=unknown
COPY --from=build /image/ /
LABEL org.opencontainers.image.title="fairlead" \
      org.opencontainers.image.description="Carries TCP between pods over SMC-R" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
USER 2201:2201
ENTRYPOINT ["/usr/local/bin/fairlead-proxy"]
CMD ["--config", "/etc/fairlead/pod.yaml"]

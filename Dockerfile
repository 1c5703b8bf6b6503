# docker build --target runtime -t mgx-mlir-runtime .    numpy and hip-python: runs finalized artifacts
# docker build -t mgx-mlir .                             the compiler: mgx, mgx-opt, the emulated GPUs
#
# A GPU is given with --device /dev/kfd --device /dev/dri; the compiler needs none.

FROM debian:12 AS build
RUN apt-get update && apt-get install -y --no-install-recommends git make python3 python3-venv
COPY . /mgx-mlir
WORKDIR /mgx-mlir
RUN make wheel

FROM debian:12-slim AS runtime
RUN apt-get update && apt-get install -y --no-install-recommends python3 python3-venv \
    && rm -rf /var/lib/apt/lists/* && python3 -m venv /opt/mgx
COPY --from=build /mgx-mlir/dist/mgx_mlir_runtime-*.whl /tmp/
RUN /opt/mgx/bin/pip install --no-cache-dir /tmp/*.whl && rm /tmp/*.whl
ENV PATH=/opt/mgx/bin:$PATH
CMD ["python"]

FROM debian:12-slim AS compiler
RUN apt-get update && apt-get install -y --no-install-recommends \
    python3 python3-venv libmlir-22 lld-22 \
    && rm -rf /var/lib/apt/lists/* && python3 -m venv /opt/mgx
COPY --from=build /mgx-mlir/dist/mgx_mlir-*.whl /tmp/
RUN /opt/mgx/bin/pip install --no-cache-dir /tmp/*.whl && rm /tmp/*.whl
ENV PATH=/opt/mgx/bin:$PATH
ENTRYPOINT ["mgx"]

"""An artifact behind MLServer: the open inference protocol (v2) over REST and gRPC.

    mgx compile model.onnx -o model.mgx --mode full-dynamic --target cpu
    python examples/serving/open_inference.py model.mgx --http 8080 --grpc 8081
    curl localhost:8080/v2/models/model

Clients of Triton and KServe talk to it. Names, types and shapes are those of the artifact's
signature. Requests that come together are one batch, where the first dimension of all inputs and
outputs may have any size and the others are given; a wrong request spoils no other of its batch.
An answer's parameter `batch_rows` says how many rows ran together.
`mlserver start FOLDER` serves it too: implementation open_inference.Served, uri model.mgx.

Needs mlserver 1.6 or newer.
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from typing import Any

import numpy as np
from mlserver import MLModel, MLServer, ModelSettings, Settings
from mlserver.codecs import NumpyCodec
from mlserver.codecs.numpy import to_datatype
from mlserver.errors import InferenceError
from mlserver.settings import ModelParameters
from mlserver.types import InferenceRequest, InferenceResponse, MetadataTensor, Parameters

import mgx_mlir
from mgx_mlir.errors import MgxError


class Served(MLModel):
    """A program, which runs beside the server's loop, so that requests gather meanwhile."""

    async def load(self) -> bool:
        parameters = self.settings.parameters
        target = (parameters.extra or {}).get("target", "cpu")
        self.program = mgx_mlir.compile(mgx_mlir.load(parameters.uri), target)
        self.inputs = [_tensor(spec) for spec in self.program.inputs]
        self.outputs = [_tensor(spec) for spec in self.program.outputs]
        if not _any_batch(self.program):
            self.settings.max_batch_size = 0
        return True

    def __setattr__(self, name: str, value: Any) -> None:
        # MLServer replaces `predict` by its batcher, which asks nobody whether requests fit.
        super().__setattr__(name, self._checked(value) if name == "predict" else value)

    def _checked(self, batcher: Any) -> Any:
        async def predict(payload: InferenceRequest) -> InferenceResponse:
            self.check(payload)
            response = await batcher(payload)
            if payload.outputs:
                wanted = [output.name for output in payload.outputs]
                response.outputs = [o for o in response.outputs if o.name in wanted]
            return response

        return predict

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        """The outputs of one batch. Raises InferenceError, the protocol's status 400."""
        self.check(payload)
        try:
            given = {one.name: NumpyCodec.decode_input(one) for one in payload.inputs}
            found = await asyncio.to_thread(self.program.run, given)
        except (MgxError, ValueError) as error:
            raise InferenceError(str(error)) from error
        outputs = [NumpyCodec.encode_output(name, array) for name, array in found.items()]
        rows = Parameters(batch_rows=max(outputs[0].shape[:1], default=1))
        return InferenceResponse(model_name=self.name, outputs=outputs, parameters=rows)

    def check(self, payload: InferenceRequest) -> None:
        """Raises InferenceError for a request that does not fit the signature."""
        given = {one.name: one for one in payload.inputs}
        if given.keys() != {tensor.name for tensor in self.inputs or ()}:
            names = ", ".join(tensor.name for tensor in self.inputs or ())
            raise InferenceError(f"the model's inputs are {names}; got {', '.join(given)}")
        for tensor in self.inputs or ():
            one = given[tensor.name]
            alike = len(one.shape) == len(tensor.shape) and all(
                wanted in (-1, size) for wanted, size in zip(tensor.shape, one.shape, strict=True)
            )
            if one.datatype != tensor.datatype or not alike:
                raise InferenceError(
                    f"input '{one.name}' is {tensor.datatype}{tensor.shape}; "
                    f"got {one.datatype}{one.shape}"
                )
            try:
                NumpyCodec.decode_input(one)
            except (TypeError, ValueError) as error:
                raise InferenceError(f"input '{one.name}': {error}") from error
        if len({one.shape[0] for one in payload.inputs if self.settings.max_batch_size}) > 1:
            raise InferenceError("the inputs have batches of different sizes")
        there = {tensor.name for tensor in self.outputs or ()}
        for output in payload.outputs or ():
            if output.name not in there:
                raise InferenceError(f"there is no output '{output.name}'")


def _tensor(spec: Any) -> MetadataTensor:
    """A tensor of the signature; sizes that requests give are -1."""
    shape = [max(size, -1) for size in spec.shape]
    return MetadataTensor(name=spec.name, datatype=to_datatype(np.dtype(spec.dtype)), shape=shape)


def _any_batch(program: mgx_mlir.Program) -> bool:
    """Whether the first dimension of all inputs and outputs is one symbol, and the only one."""
    shapes = [spec.shape for spec in (*program.inputs, *program.outputs)]
    return all(shape and shape[0] < 0 for shape in shapes) and (
        len({size for shape in shapes for size in shape if size < 0}) == 1
    )


async def serve(options: argparse.Namespace) -> None:
    """Serves until the process is told to stop."""
    ports = {"http_port": options.http, "grpc_port": options.grpc, "metrics_port": options.metrics}
    server = MLServer(Settings(host=options.host, parallel_workers=0, debug=False, **ports))
    where = ModelParameters(uri=str(options.artifact), extra={"target": options.target})
    model = ModelSettings(
        name=options.name or options.artifact.stem, implementation=Served, parameters=where,
        max_batch_size=options.batch, max_batch_time=options.wait,
    )  # fmt: skip
    await server.start([model])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("artifact", type=Path)
    parser.add_argument("--name", help="default: the file's")
    parser.add_argument("--target", default="cpu", help="cpu, gpu or a chip")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--http", type=int, default=8080)
    parser.add_argument("--grpc", type=int, default=8081)
    parser.add_argument("--metrics", type=int, default=8082)
    parser.add_argument("--batch", type=int, default=32, help="the most requests of a batch")
    parser.add_argument("--wait", type=float, default=0.005, help="seconds for more requests")
    asyncio.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()

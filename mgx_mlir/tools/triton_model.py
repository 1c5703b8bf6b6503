"""A model of Triton's Python backend: an artifact in this folder, run on its device.

`mgx triton` copies this file beside the artifact, and writes config.pbtxt. Requests that Triton
gives together run as one batch where the program takes any.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import triton_python_backend_utils as triton

import mgx_mlir
from mgx_mlir.errors import MgxError


class TritonPythonModel:
    """One instance: on a GPU, or on the host's cores."""

    def initialize(self, args: Mapping[str, str]) -> None:
        config = json.loads(args["model_config"])
        target = config["parameters"]["target"]["string_value"]
        device: dict[str, Any] = {}
        if args["model_instance_kind"] == "GPU":
            device["device"] = int(args["model_instance_device_id"])
        artifact = mgx_mlir.load(Path(__file__).with_name("model.mgx"))
        self.program = mgx_mlir.compile(artifact, target, **device)
        self.batched = config["max_batch_size"] > 0

    def execute(self, requests: Sequence[Any]) -> list[Any]:
        given = [self._inputs(request) for request in requests]
        answers: list[Any] = [None] * len(given)
        for numbers in self._together(given):
            try:
                found = self._run([given[number] for number in numbers])
            except MgxError as error:
                failed = triton.InferenceResponse(error=triton.TritonError(str(error)))
                found = [failed] * len(numbers)
            for number, answer in zip(numbers, found, strict=True):
                answers[number] = answer
        return answers

    def _inputs(self, request: Any) -> dict[str, np.ndarray]:
        names = [spec.name for spec in self.program.inputs]
        return {n: triton.get_input_tensor_by_name(request, n).as_numpy() for n in names}

    def _together(self, given: Sequence[Mapping[str, np.ndarray]]) -> list[list[int]]:
        """The numbers of requests that make one batch: all but the first dimension is equal."""
        groups: dict[Any, list[int]] = {}
        for number, arrays in enumerate(given):
            alike = tuple(array.shape[1:] for array in arrays.values())
            groups.setdefault(alike if self.batched else number, []).append(number)
        return list(groups.values())

    def _run(self, given: Sequence[Mapping[str, np.ndarray]]) -> list[Any]:
        if len(given) == 1:
            return [_response(self.program.run(given[0]))]
        whole = {name: np.concatenate([one[name] for one in given]) for name in given[0]}
        found = self.program.run(whole)
        ends = np.cumsum([len(next(iter(one.values()))) for one in given])
        parts = {name: np.split(array, ends[:-1]) for name, array in found.items()}
        return [_response({n: p[number] for n, p in parts.items()}) for number in range(len(given))]


def _response(outputs: Mapping[str, np.ndarray]) -> Any:
    tensors = [triton.Tensor(name, np.ascontiguousarray(a)) for name, a in outputs.items()]
    return triton.InferenceResponse(output_tensors=tensors)

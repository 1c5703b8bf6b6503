"""Models of CatBoost, as its own `save_model(format="onnx")` writes them: files of IR version 3."""

from __future__ import annotations

import tempfile
from pathlib import Path

import catboost
import numpy as np

from test.exported.registry import Made, floats, named

_X = floats(120, 4)
_CLASSES = np.argmax(_X[:, :3] + floats(120, 3, seed=1) * 0.2, 1)
_NUMBERS = _X @ floats(4, seed=2) + np.sin(_X[:, 0])
_UNSEEN = [{"features": floats(7, 4, seed=3)}, {"features": floats(1, 4, seed=4)}]
_SMALL = {"iterations": 6, "depth": 3, "random_seed": 0, "verbose": False, "thread_count": 1}


def _saved(name: str, kind: type, y: np.ndarray, **options) -> None:
    def make() -> Made:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.onnx"
            fitted = kind(**_SMALL, **options, train_dir=folder).fit(_X, y)
            fitted.save_model(str(path), format="onnx")
            return path.read_bytes(), _UNSEEN

    named(name, make)


_saved("binary", catboost.CatBoostClassifier, (_CLASSES > 0).astype(int))
_saved("classes", catboost.CatBoostClassifier, _CLASSES)
_saved("classes_of_strings", catboost.CatBoostClassifier, np.array(["a", "b", "c"])[_CLASSES])
_saved("huber", catboost.CatBoostRegressor, _NUMBERS, loss_function="Huber:delta=1.0")
_saved("mean", catboost.CatBoostRegressor, _NUMBERS)
_saved("quantile", catboost.CatBoostRegressor, _NUMBERS, loss_function="Quantile:alpha=0.8")
_saved(
    "without_boosting_from_average", catboost.CatBoostRegressor, _NUMBERS, boost_from_average=False
)

"""Boosted trees of LightGBM and XGBoost, as onnxmltools writes them."""

from __future__ import annotations

import lightgbm
import numpy as np
import onnxmltools
import xgboost
from onnxmltools.convert.common.data_types import FloatTensorType

from test.exported.registry import Made, floats, named

_X = floats(120, 4)
_CLASSES = np.argmax(_X[:, :3] + floats(120, 3, seed=1) * 0.2, 1)
_NUMBERS = _X @ floats(4, seed=2) + np.sin(_X[:, 0])
_POSITIVE = np.abs(_NUMBERS) + 0.1
_UNSEEN = [{"input": floats(7, 4, seed=3)}, {"input": floats(1, 4, seed=4)}]
_TYPES = [("input", FloatTensorType([None, 4]))]
_SMALL = {"n_estimators": 5, "max_depth": 3}
_light = {**_SMALL, "verbose": -1, "min_child_samples": 5}


def _boosted(name: str, estimator, y: np.ndarray, **options) -> None:
    def make() -> Made:
        convert = (
            onnxmltools.convert_lightgbm if "lightgbm" in name else onnxmltools.convert_xgboost
        )
        return convert(estimator.fit(_X, y), initial_types=_TYPES, **options), _UNSEEN

    named(name, make)


_boosted("lightgbm_binary", lightgbm.LGBMClassifier(**_light), (_CLASSES > 0).astype(int))
_boosted("lightgbm_classes", lightgbm.LGBMClassifier(**_light), _CLASSES)
_boosted("lightgbm_columns", lightgbm.LGBMClassifier(**_light), _CLASSES, zipmap=False)
_boosted("lightgbm_dart", lightgbm.LGBMRegressor(**_light, boosting_type="dart"), _NUMBERS)
_boosted("lightgbm_gamma", lightgbm.LGBMRegressor(**_light, objective="gamma"), _POSITIVE)
_boosted("lightgbm_mean", lightgbm.LGBMRegressor(**_light), _NUMBERS)
_boosted("lightgbm_poisson", lightgbm.LGBMRegressor(**_light, objective="poisson"), _POSITIVE)
_boosted("lightgbm_quantile", lightgbm.LGBMRegressor(**_light, objective="quantile"), _NUMBERS)
_boosted(
    "lightgbm_random_forest",
    lightgbm.LGBMRegressor(**_light, boosting_type="rf", bagging_freq=1, bagging_fraction=0.7),
    _NUMBERS,
)
_boosted("xgboost_binary", xgboost.XGBClassifier(**_SMALL), (_CLASSES > 0).astype(int))
_boosted("xgboost_classes", xgboost.XGBClassifier(**_SMALL), _CLASSES)
_boosted("xgboost_gamma", xgboost.XGBRegressor(**_SMALL, objective="reg:gamma"), _POSITIVE)
_boosted("xgboost_logistic", xgboost.XGBRegressor(**_SMALL, objective="reg:logistic"), _CLASSES / 2)
_boosted("xgboost_mean", xgboost.XGBRegressor(**_SMALL), _NUMBERS)
_boosted("xgboost_poisson", xgboost.XGBRegressor(**_SMALL, objective="count:poisson"), _POSITIVE)
_boosted("xgboost_random_forest", xgboost.XGBRFRegressor(**_SMALL), _NUMBERS)
_boosted("xgboost_tweedie", xgboost.XGBRegressor(**_SMALL, objective="reg:tweedie"), _POSITIVE)

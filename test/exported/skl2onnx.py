"""Models of scikit-learn, as skl2onnx writes them, with the options that it has by default."""

from __future__ import annotations

import numpy as np
from skl2onnx import to_onnx
from skl2onnx.common.data_types import FloatTensorType, Int64TensorType, StringTensorType
from sklearn import (
    calibration,
    cluster,
    compose,
    cross_decomposition,
    decomposition,
    discriminant_analysis,
    ensemble,
    feature_extraction,
    feature_selection,
    gaussian_process,
    impute,
    linear_model,
    mixture,
    multiclass,
    multioutput,
    naive_bayes,
    neighbors,
    neural_network,
    pipeline,
    preprocessing,
    random_projection,
    svm,
    tree,
)

from test.exported.registry import Made, floats, integers, model, named

_X = floats(90, 4)
_CLASSES = np.argmax(_X[:, :3] + floats(90, 3, seed=1) * 0.2, 1)
_BINARY = (_CLASSES > 0).astype(np.int64)
_NUMBERS = (_X @ floats(4, seed=2) + np.sin(_X[:, 0])).astype(np.float32)
_UNSEEN = [{"X": floats(7, 4, seed=3)}, {"X": floats(1, 4, seed=4)}]


def _fitted(estimator, y, x=_X, inputs=_UNSEEN, **options) -> Made:
    return to_onnx(estimator.fit(x, y), x[:1], **options), inputs


def _family(prefix: str, y: np.ndarray, estimators: dict, **options) -> None:
    for name, estimator in estimators.items():
        named(f"{prefix}_{name}", lambda e=estimator: _fitted(e, y, **options))


_trees = {"n_estimators": 5, "max_depth": 4, "random_state": 0}

_family(
    "classifier",
    _CLASSES,
    {
        "ada_boost": ensemble.AdaBoostClassifier(n_estimators=4, random_state=0),
        "bagging": ensemble.BaggingClassifier(n_estimators=3, random_state=0),
        "calibrated": calibration.CalibratedClassifierCV(linear_model.LogisticRegression(), cv=2),
        "decision_tree": tree.DecisionTreeClassifier(max_depth=4, random_state=0),
        "extra_trees": ensemble.ExtraTreesClassifier(**_trees),
        "gaussian_nb": naive_bayes.GaussianNB(),
        "gradient_boosting": ensemble.GradientBoostingClassifier(n_estimators=4, random_state=0),
        "knn": neighbors.KNeighborsClassifier(n_neighbors=3),
        "lda": discriminant_analysis.LinearDiscriminantAnalysis(),
        "linear_svc": svm.LinearSVC(random_state=0),
        "logistic": linear_model.LogisticRegression(),
        "mlp": neural_network.MLPClassifier((8,), random_state=0, max_iter=300),
        "one_vs_one": multiclass.OneVsOneClassifier(linear_model.LogisticRegression()),
        "one_vs_rest": multiclass.OneVsRestClassifier(linear_model.LogisticRegression()),
        "perceptron": linear_model.Perceptron(random_state=0),
        "qda": discriminant_analysis.QuadraticDiscriminantAnalysis(),
        "random_forest": ensemble.RandomForestClassifier(**_trees),
        "ridge": linear_model.RidgeClassifier(),
        "sgd": linear_model.SGDClassifier(loss="log_loss", random_state=0),
        "stacking": ensemble.StackingClassifier(
            [("a", tree.DecisionTreeClassifier(max_depth=3)), ("b", naive_bayes.GaussianNB())],
            linear_model.LogisticRegression(),
            cv=2,
        ),
        "svc": svm.SVC(),
        "svc_poly": svm.SVC(kernel="poly", degree=2, decision_function_shape="ovo"),
        "voting": ensemble.VotingClassifier(
            [("a", tree.DecisionTreeClassifier(max_depth=3)), ("b", naive_bayes.GaussianNB())],
            voting="soft",
            flatten_transform=False,
        ),
    },
)
_family(
    "binary",
    _BINARY,
    {
        "gradient_boosting": ensemble.GradientBoostingClassifier(n_estimators=4, random_state=0),
        "linear_svc": svm.LinearSVC(random_state=0),
        "logistic": linear_model.LogisticRegression(),
        "mlp": neural_network.MLPClassifier((8,), random_state=0, max_iter=300),
        "nu_svc": svm.NuSVC(nu=0.2),
        "svc_sigmoid": svm.SVC(kernel="sigmoid"),
    },
)
_family(
    "regressor",
    _NUMBERS,
    {
        "ard": linear_model.ARDRegression(),
        "decision_tree": tree.DecisionTreeRegressor(max_depth=4, random_state=0),
        "elastic_net": linear_model.ElasticNet(0.1),
        "extra_trees": ensemble.ExtraTreesRegressor(**_trees),
        "gradient_boosting": ensemble.GradientBoostingRegressor(n_estimators=5, random_state=0),
        "huber": linear_model.HuberRegressor(),
        "knn": neighbors.KNeighborsRegressor(n_neighbors=3, weights="distance"),
        "linear": linear_model.LinearRegression(),
        "linear_svr": svm.LinearSVR(random_state=0),
        "mlp": neural_network.MLPRegressor(hidden_layer_sizes=(8,), random_state=0, max_iter=300),
        "nu_svr": svm.NuSVR(),
        "pls": cross_decomposition.PLSRegression(2),
        "quantile": linear_model.QuantileRegressor(quantile=0.3, alpha=0.01),
        "random_forest": ensemble.RandomForestRegressor(**_trees),
        "ransac": linear_model.RANSACRegressor(random_state=0, min_samples=10),
        "stacking": ensemble.StackingRegressor(
            [("a", linear_model.Ridge()), ("b", tree.DecisionTreeRegressor(max_depth=3))], cv=2
        ),
        "svr": svm.SVR(),
        "svr_poly": svm.SVR(kernel="poly", degree=2),
        "theil_sen": linear_model.TheilSenRegressor(random_state=0),
    },
)
_family(
    "transformer",
    _BINARY,
    {
        "binarizer": preprocessing.Binarizer(threshold=0.3),
        "gaussian_projection": random_projection.GaussianRandomProjection(2, random_state=0),
        "incremental_pca": decomposition.IncrementalPCA(2),
        "k_bins": preprocessing.KBinsDiscretizer(3, encode="onehot-dense"),
        "kernel_pca": decomposition.KernelPCA(2, kernel="rbf"),
        "knn_imputer": impute.KNNImputer(n_neighbors=2),
        "max_abs_scaler": preprocessing.MaxAbsScaler(),
        "min_max_scaler": preprocessing.MinMaxScaler(clip=True),
        "normalizer": preprocessing.Normalizer("l1"),
        "pca": decomposition.PCA(2, whiten=True),
        "polynomial": preprocessing.PolynomialFeatures(2),
        "power": preprocessing.PowerTransformer(),
        "robust_scaler": preprocessing.RobustScaler(),
        "select_k_best": feature_selection.SelectKBest(k=2),
        "standard_scaler": preprocessing.StandardScaler(),
        "truncated_svd": decomposition.TruncatedSVD(2, random_state=0),
        "variance": feature_selection.VarianceThreshold(0.1),
    },
)
_family(
    "outliers_and_clusters",
    _CLASSES,
    {
        "bayesian_mixture": mixture.BayesianGaussianMixture(n_components=2, random_state=0),
        "gaussian_mixture": mixture.GaussianMixture(3, random_state=0),
        "isolation_forest": ensemble.IsolationForest(n_estimators=4, random_state=0),
        "k_means": cluster.KMeans(3, n_init=2, random_state=0),
        "local_outlier_factor": neighbors.LocalOutlierFactor(n_neighbors=5, novelty=True),
        "mini_batch_k_means": cluster.MiniBatchKMeans(3, n_init=2, random_state=0),
        "one_class_svm": svm.OneClassSVM(),
    },
    target_opset={"": 18, "ai.onnx.ml": 3},
)


@model
def svc_probabilities() -> Made:
    return _fitted(svm.SVC(probability=True, random_state=0), _CLASSES)


@model
def svc_binary_probabilities() -> Made:
    return _fitted(svm.SVC(probability=True, random_state=0), _BINARY)


@model
def classifier_without_zipmap() -> Made:
    forest = ensemble.RandomForestClassifier(**_trees).fit(_X, _CLASSES)
    return to_onnx(forest, _X[:1], options={"zipmap": False}), _UNSEEN


@model
def classifier_with_columns() -> Made:
    forest = ensemble.RandomForestClassifier(**_trees).fit(_X, _CLASSES)
    return to_onnx(forest, _X[:1], options={"zipmap": "columns"}), _UNSEEN


@model
def classifier_of_strings() -> Made:
    names = np.array(["ant", "bee", "cat"])[_CLASSES]
    return _fitted(linear_model.LogisticRegression(), names)


@model
def classifier_of_old_opsets() -> Made:
    forest = ensemble.GradientBoostingClassifier(n_estimators=3).fit(_X, _BINARY)
    return to_onnx(forest, _X[:1], target_opset={"": 9, "ai.onnx.ml": 1}), _UNSEEN


@model
def regressor_of_doubles() -> Made:
    x = _X.astype(np.float64)
    fitted = gaussian_process.GaussianProcessRegressor(random_state=0).fit(x, _NUMBERS)
    return to_onnx(fitted, x[:1]), [{"X": u["X"].astype(np.float64)} for u in _UNSEEN]


@model
def gaussian_process_with_deviation() -> Made:
    x = _X.astype(np.float64)
    fitted = gaussian_process.GaussianProcessRegressor(alpha=0.1, random_state=0).fit(x, _NUMBERS)
    options = {gaussian_process.GaussianProcessRegressor: {"return_std": True}}
    made = to_onnx(fitted, x[:1], options=options)
    return made, [{"X": u["X"].astype(np.float64)} for u in _UNSEEN]


@model
def multi_output() -> Made:
    y = np.stack([_NUMBERS, _NUMBERS * 2 + _X[:, 0]], 1)
    return _fitted(multioutput.MultiOutputRegressor(linear_model.Ridge()), y)


@model
def several_labels() -> Made:
    y = np.stack([_BINARY, 1 - _BINARY, _CLASSES == 1], 1).astype(np.int64)
    return _fitted(multioutput.MultiOutputClassifier(linear_model.LogisticRegression()), y)


@model
def imputed_and_scaled() -> Made:
    x = _X.copy()
    x[::5, 1] = np.nan
    steps = pipeline.make_pipeline(
        impute.SimpleImputer(strategy="median", add_indicator=False),
        preprocessing.StandardScaler(),
        linear_model.LogisticRegression(),
    )
    return _fitted(steps, _CLASSES, x, [{"X": x[:6]}])


@model
def union_of_features() -> Made:
    union = pipeline.make_union(decomposition.PCA(2), preprocessing.MinMaxScaler())
    steps = pipeline.make_pipeline(union, ensemble.RandomForestRegressor(**_trees))
    return _fitted(steps, _NUMBERS)


def _table(rows: int, seed: int) -> dict[str, np.ndarray]:
    pets = np.array(["ant", "bee", "cat", "dog"])[integers(4, rows, 1, seed=seed)]
    return {
        "age": floats(rows, 1, seed=seed),
        "height": floats(rows, 1, seed=seed + 1) * 3,
        "count": integers(3, rows, 1, seed=seed),
        "pet": pets.astype(object),
    }


_COLUMNS = [
    ("age", FloatTensorType([None, 1])),
    ("height", FloatTensorType([None, 1])),
    ("count", Int64TensorType([None, 1])),
    ("pet", StringTensorType([None, 1])),
]


def _of_table(encoder, final) -> Made:
    import pandas

    table = _table(60, 5)
    frame = pandas.DataFrame({name: column[:, 0] for name, column in table.items()})
    y = ((frame["pet"] == "cat") | (frame["age"] > 0.4)).astype(np.int64)
    columns = compose.ColumnTransformer(
        [
            ("numbers", preprocessing.StandardScaler(), ["age", "height"]),
            ("counts", "passthrough", ["count"]),
            ("words", encoder, ["pet"]),
        ]
    )
    fitted = pipeline.Pipeline([("columns", columns), ("final", final)]).fit(frame, y)
    return to_onnx(fitted, initial_types=_COLUMNS), [_table(6, 8), _table(1, 9)]


@model
def table_one_hot() -> Made:
    return _of_table(
        preprocessing.OneHotEncoder(handle_unknown="ignore"), linear_model.LogisticRegression()
    )


@model
def table_ordinal() -> Made:
    return _of_table(
        preprocessing.OrdinalEncoder(), ensemble.GradientBoostingClassifier(n_estimators=4)
    )


@model
def table_target() -> Made:
    return _of_table(
        preprocessing.TargetEncoder(random_state=0), ensemble.RandomForestClassifier(**_trees)
    )


_TEXTS = ["the cat sat on the mat", "a dog ran", "the dog and the cat", "birds fly high", "a bird"]
_WORDS = [{"X": np.array([["the bird sat"], ["a cat and a dog"], ["nothing known"]], object)}]


def _of_text(vectorizer) -> Made:
    steps = pipeline.make_pipeline(vectorizer, linear_model.LogisticRegression())
    fitted = steps.fit(_TEXTS * 3, [0, 1, 1, 0, 2] * 3)
    # onnxruntime wants a locale that the machine has.
    options = {type(vectorizer): {"locale": "C"}}
    types = [("X", StringTensorType([None, 1]))]
    return to_onnx(fitted, initial_types=types, options=options), _WORDS


@model
def text_tfidf() -> Made:
    return _of_text(feature_extraction.text.TfidfVectorizer())


@model
def text_pairs_of_words() -> Made:
    return _of_text(feature_extraction.text.TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True))


@model
def text_counts() -> Made:
    return _of_text(feature_extraction.text.CountVectorizer(binary=True, stop_words=["the"]))


@model
def text_characters() -> Made:
    return _of_text(feature_extraction.text.CountVectorizer(analyzer="char", ngram_range=(1, 2)))


@model
def label_encoder() -> Made:
    encoder = preprocessing.LabelEncoder().fit(["ant", "bee", "cat"])
    made = to_onnx(encoder, initial_types=[("X", StringTensorType([None]))])
    return made, {"X": np.array(["cat", "ant", "bee"], object)}


@model
def label_binarizer() -> Made:
    binarizer = preprocessing.LabelBinarizer().fit([1, 3, 5])
    made = to_onnx(binarizer, initial_types=[("X", Int64TensorType([None, 1]))])
    return made, {"X": np.array([[3], [5], [1]])}

"""Every learner, in each configuration that changes its state or its promises."""

from everlearn import (
    AutoClassifier,
    ExStream,
    FixedCovarianceLDA,
    NCMForest,
    NearestClassMean,
    PowerNormalizer,
    RandomFeatures,
    RecursiveRLSC,
    SlidingWindow,
    StreamingLDA,
    StreamPipeline,
    SVMForest,
)

LEARNERS = [
    AutoClassifier(sample_size=60),
    ExStream(n_prototypes=4, learning_rate=0.1),
    NearestClassMean(),
    NearestClassMean(metric="cosine"),
    NearestClassMean(metric="learned"),
    StreamingLDA(),
    StreamingLDA(shrinkage="oas", class_scatter=True),
    StreamingLDA(priors="empirical"),
    StreamingLDA(start_covariance=2.0, start_weight=5),
    FixedCovarianceLDA(),
    FixedCovarianceLDA(base="oas"),
    RecursiveRLSC(),
    RecursiveRLSC(fit_intercept=True, recoding=0.0, class_scatter=True),
    RecursiveRLSC(weighting="rebalance", fit_intercept=True),
    RecursiveRLSC(class_weight="balanced", fit_intercept=True),
    NCMForest(n_estimators=20, random_state=0),
    NCMForest(n_estimators=20, random_state=0, update="rtst", min_samples=1),
    NCMForest(n_estimators=20, random_state=0, update="auto"),
    SVMForest(n_estimators=20, random_state=0),
]

# Not for scikit-learn's suite, which shuffles examples before it compares weights with repetitions
# (which examples are held out depends on their order), and wants every classifier to tell two
# blobs in the plane apart (a covariance of ones sees one direction only). Which examples a budget
# keeps depends on their number, and age counts examples, so weights are not repetitions there.
OTHER_LEARNERS = [
    RecursiveRLSC(regularization="auto", recoding="auto", validation_size=20),
    RecursiveRLSC(regularization="auto", weighting="rebalance", validation_size=20),
    FixedCovarianceLDA(base="ones"),
    FixedCovarianceLDA(base=1.5),
    AutoClassifier(sample_size=12),
    NearestClassMean(half_life=20),
    StreamingLDA(half_life=20, class_scatter=True),
    RecursiveRLSC(half_life=20, fit_intercept=True),
    RecursiveRLSC(class_weight={"cup": 3.0, "lamp": 0.5}),
    SlidingWindow(size=40),
    SlidingWindow(learner=RecursiveRLSC(), size=40),
    StreamPipeline(
        [("wide", RandomFeatures(n_components=40)), ("learn", AutoClassifier(sample_size=60))]
    ),
    StreamPipeline([("root", PowerNormalizer(unit_length=False)), ("learn", StreamingLDA())]),
    NCMForest(n_estimators=20, random_state=0, n_exemplars=5),
    SVMForest(n_estimators=20, random_state=0, n_exemplars=5, update="igt"),
]

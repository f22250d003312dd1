//! The metrics of requests, by pool, namespace, route and method.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, OnceLock};
use std::time::Duration;

use axum::http::{Method, StatusCode};
use parking_lot::RwLock;
use prometheus::{Histogram, HistogramVec, IntCounter, IntCounterVec, exponential_buckets};
use tidegate_core::Namespace;
use tidegate_daemon::metrics::{OTHER, counters, histograms};
use tidegate_engine::{Engine, LimitedAction, SeriesTable};

use super::context::RequestContext;

static LATENCY: LazyLock<HistogramVec> = LazyLock::new(|| {
    // 15 ms times the powers of 2.5, as in lmstfy.
    let bounds = exponential_buckets(15.0, 2.5, 9).expect("valid buckets");
    histograms(
        "infra_lmstfy_http_latency_milliseconds",
        "Time from the end of a request's header to its answer, in milliseconds, for statuses below 300. Long polls include their wait.",
        &["pool", "namespace", "api", "method"],
        &bounds,
    )
});
static CODES: LazyLock<IntCounterVec> = LazyLock::new(|| {
    counters(
        "infra_lmstfy_http_http_codes",
        "Number of answered requests, by status.",
        &["pool", "namespace", "api", "method", "code"],
    )
});
static RATE_LIMIT: LazyLock<IntCounterVec> = LazyLock::new(|| {
    counters(
        "infra_lmstfy_http_rate_limit",
        "Number of requests rejected by the rate limit of their token, by action.",
        &["pool", "namespace", "action"],
    )
});

/// The most endpoints of all front doors together.
const ENDPOINTS_MAX: usize = 48;

/// The endpoint of a front door that a request matched, for its metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Endpoint {
    /// Unique among all endpoints, and below [`ENDPOINTS_MAX`].
    pub(crate) number: u8,
    /// The value of the label `api`.
    pub(crate) name: &'static str,
}

impl Endpoint {
    /// Requests that no route matches.
    pub(crate) const UNMATCHED: Self = Self {
        number: 0,
        name: "",
    };
}

/// The values of the label `method`. Other methods share one value, so that clients cannot create series.
const METHODS: [&str; 6] = ["GET", "PUT", "DELETE", "POST", "PATCH", "other"];

/// The metrics of the requests of all pools.
#[derive(Debug)]
pub(crate) struct HttpMetrics {
    by_pool: BTreeMap<Arc<str>, PoolSeries>,
    /// The metrics of requests without a known pool.
    of_no_pool: NamespaceSeries,
}

/// The metrics of the requests of a pool.
#[derive(Debug)]
struct PoolSeries {
    namespaces: SeriesTable<Namespace, NamespaceSeries>,
    /// The metrics of requests without a valid token for a namespace.
    of_no_namespace: NamespaceSeries,
}

/// The metrics of the requests of a namespace. A series exists from its first event on, and until this is dropped.
#[derive(Debug)]
struct NamespaceSeries {
    /// Pool and namespace; empty if unknown.
    labels: [String; 2],
    /// By the number of the endpoint, then by method.
    endpoints: [OnceLock<Box<EndpointSeries>>; ENDPOINTS_MAX * METHODS.len()],
    /// Rejected consumes and publishes, by [`LimitedAction`].
    limited: [OnceLock<IntCounter>; 2],
}

#[derive(Debug)]
struct EndpointSeries {
    /// Pool, namespace, endpoint and method.
    labels: [String; 4],
    latency: OnceLock<Histogram>,
    codes: RwLock<Vec<(u16, IntCounter)>>,
}

impl HttpMetrics {
    /// Creates the metrics for the pools of an engine. At most `namespaces_max` namespaces of each pool have metrics of
    /// their own.
    pub(crate) fn new(engine: &Engine, namespaces_max: usize) -> Self {
        let pools = engine.pools().map(|pool| Arc::clone(&pool.name));
        let of_pool = |pool: Arc<str>| (Arc::clone(&pool), PoolSeries::new(pool, namespaces_max));
        Self {
            by_pool: pools.map(of_pool).collect(),
            of_no_pool: NamespaceSeries::new("", ""),
        }
    }

    /// Counts an answered request. Its duration is recorded only if the status is below 300.
    pub(crate) fn answered(
        &self,
        context: &RequestContext,
        endpoint: Endpoint,
        method: &Method,
        status: StatusCode,
        took: Duration,
    ) {
        let answered = |series: &NamespaceSeries| series.answered(endpoint, method, status, took);
        let pool = context.pool.get();
        let pool = pool.and_then(|pool| self.by_pool.get(&pool.name));
        match (pool, context.namespace.get()) {
            (None, _) => answered(&self.of_no_pool),
            (Some(pool), None) => answered(&pool.of_no_namespace),
            (Some(pool), Some(namespace)) => answered(&pool.of(namespace)),
        }
    }

    /// Counts a request that was rejected by a rate limit.
    pub(crate) fn limited(&self, pool: &str, namespace: &Namespace, action: LimitedAction) {
        if let Some(pool) = self.by_pool.get(pool) {
            pool.of(namespace).limited(action);
        }
    }
}

impl PoolSeries {
    fn new(pool: Arc<str>, namespaces_max: usize) -> Self {
        let of_no_namespace = NamespaceSeries::new(&pool, "");
        let others = NamespaceSeries::new(&pool, OTHER);
        let make = move |namespace: &Namespace| NamespaceSeries::new(&pool, namespace.as_str());
        Self {
            namespaces: SeriesTable::new(namespaces_max, others, make),
            of_no_namespace,
        }
    }

    /// The metrics of a namespace. A namespace named `_other` is counted with those beyond the limit: they have its label.
    fn of(&self, namespace: &Namespace) -> Arc<NamespaceSeries> {
        match namespace.as_str() {
            OTHER => self.namespaces.others(),
            _ => self.namespaces.get(namespace),
        }
    }
}

impl NamespaceSeries {
    fn new(pool: &str, namespace: &str) -> Self {
        Self {
            labels: [pool, namespace].map(str::to_owned),
            endpoints: [const { OnceLock::new() }; ENDPOINTS_MAX * METHODS.len()],
            limited: [const { OnceLock::new() }; 2],
        }
    }

    fn answered(&self, endpoint: Endpoint, method: &Method, status: StatusCode, took: Duration) {
        let method = method_number(method);
        let [pool, namespace] = &self.labels;
        let new = || {
            let labels = [pool, namespace, endpoint.name, METHODS[method]];
            Box::new(EndpointSeries::new(labels.map(str::to_owned)))
        };
        let position = usize::from(endpoint.number) * METHODS.len() + method;
        let series = self.endpoints[position].get_or_init(new);
        series.count(status.as_u16());
        if status.as_u16() < 300 {
            series.took(took);
        }
    }

    fn limited(&self, action: LimitedAction) {
        let [pool, namespace] = &self.labels;
        let series = || RATE_LIMIT.with_label_values(&[pool, namespace, action.name()]);
        self.limited[action as usize].get_or_init(series).inc();
    }
}

impl Drop for NamespaceSeries {
    fn drop(&mut self) {
        let [pool, namespace] = &self.labels;
        for action in [LimitedAction::Consume, LimitedAction::Produce] {
            // A series without an event does not exist.
            let _ = RATE_LIMIT.remove_label_values(&[pool, namespace, action.name()]);
        }
    }
}

/// The position of a method's label in [`METHODS`].
fn method_number(method: &Method) -> usize {
    match *method {
        Method::GET => 0,
        Method::PUT => 1,
        Method::DELETE => 2,
        _ => METHODS.len() - 1,
    }
}

impl EndpointSeries {
    const fn new(labels: [String; 4]) -> Self {
        Self {
            labels,
            latency: OnceLock::new(),
            codes: RwLock::new(Vec::new()),
        }
    }

    fn took(&self, took: Duration) {
        let series = || LATENCY.with_label_values(&self.labels);
        let latency = self.latency.get_or_init(series);
        latency.observe(took.as_secs_f64() * 1000.0);
    }

    fn count(&self, code: u16) {
        let codes = self.codes.read();
        if let Some((_, count)) = codes.iter().find(|(known, _)| *known == code) {
            return count.inc();
        }
        drop(codes);
        let series = self.of_code(code);
        series.inc();
        let mut codes = self.codes.write();
        if !codes.iter().any(|(known, _)| *known == code) {
            codes.push((code, series));
        }
    }

    fn of_code(&self, code: u16) -> IntCounter {
        let [pool, namespace, endpoint, method] = &self.labels;
        let code = code.to_string();
        CODES.with_label_values(&[pool, namespace, endpoint, method, &code])
    }
}

impl Drop for EndpointSeries {
    fn drop(&mut self) {
        let _ = LATENCY.remove_label_values(&self.labels);
        let [pool, namespace, endpoint, method] = &self.labels;
        for (code, _) in self.codes.get_mut() {
            let code = code.to_string();
            let _ = CODES.remove_label_values(&[pool, namespace, endpoint, method, &code]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Otherwise both would have the same series, and the series of all surplus namespaces would end with this
    /// namespace.
    #[test]
    fn a_namespace_with_the_name_of_the_others_is_counted_with_them() {
        let of_pool = PoolSeries::new("p".into(), 1);
        let of = |name: &str| of_pool.of(&Namespace::try_from(name).unwrap());
        let others = of_pool.namespaces.others();
        assert!(Arc::ptr_eq(&of(OTHER), &others));
        assert!(!Arc::ptr_eq(&of("a"), &others));
        assert!(Arc::ptr_eq(&of("b"), &others));
    }

    #[test]
    fn each_route_and_method_has_own_series() {
        let series = NamespaceSeries::new("p", "n");
        let queue = Endpoint {
            number: 1,
            name: "/api/:namespace/:queue",
        };
        let ms = Duration::from_millis;
        series.answered(queue, &Method::GET, StatusCode::OK, ms(20));
        series.answered(queue, &Method::GET, StatusCode::NOT_FOUND, ms(20));
        series.answered(queue, &Method::PUT, StatusCode::CREATED, ms(20));
        let unmatched = Endpoint::UNMATCHED;
        series.answered(unmatched, &Method::OPTIONS, StatusCode::NOT_FOUND, ms(20));
        series.limited(LimitedAction::Produce);
        let text = || {
            let families = prometheus::gather();
            prometheus::TextEncoder::new().encode_to_string(&families)
        };
        let shown = text().unwrap();
        let of = |api: &str, method: &str| {
            format!(r#"api="{api}",method="{method}",namespace="n",pool="p""#)
        };
        let queue = |method| of("/api/:namespace/:queue", method);
        // Labels are sorted by name.
        let with_code = |code: u16, method: &str| {
            format!(
                r#"api="/api/:namespace/:queue",code="{code}",method="{method}",namespace="n",pool="p""#
            )
        };
        for expected in [
            format!("http_http_codes{{{}}} 1", with_code(200, "GET")),
            format!("http_http_codes{{{}}} 1", with_code(404, "GET")),
            format!("http_http_codes{{{}}} 1", with_code(201, "PUT")),
            format!(
                r#"http_latency_milliseconds_bucket{{{},le="37.5"}} 1"#,
                queue("GET")
            ),
            format!("http_latency_milliseconds_count{{{}}} 1", queue("GET")),
            r#"http_http_codes{api="",code="404",method="other",namespace="n",pool="p"} 1"#
                .to_owned(),
            r#"http_rate_limit{action="produce",namespace="n",pool="p"} 1"#.to_owned(),
        ] {
            assert!(shown.contains(&expected), "{expected} is not in\n{shown}");
        }
        assert!(!shown.contains("consume"), "{shown}");
        drop(series);
        let shown = text().unwrap();
        assert!(!shown.contains("namespace=\"n\""), "{shown}");
    }
}

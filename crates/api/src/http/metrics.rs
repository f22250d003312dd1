//! The metrics of requests, by pool, namespace, route and method.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::http::{Method, StatusCode};
use parking_lot::Mutex;
use prometheus::proto::MetricFamily;
use prometheus::{Histogram, exponential_buckets};
use tidegate_core::Namespace;
use tidegate_daemon::metrics::{
    FamilyTexts, OTHER, counters_of_scrape, histogram, histograms_of_scrape,
};
use tidegate_engine::{Engine, LimitedAction, SeriesTable};

use super::context::RequestContext;

const LATENCY: FamilyTexts = (
    "infra_lmstfy_http_latency_milliseconds",
    "Time from the end of a request's header to its answer, in milliseconds, for statuses below 300. Long polls include their wait.",
);
const CODES: FamilyTexts = (
    "infra_lmstfy_http_http_codes",
    "Number of answered requests, by status.",
);
const RATE_LIMIT: FamilyTexts = (
    "infra_lmstfy_http_rate_limit",
    "Number of requests rejected by the rate limit of their token, by action.",
);

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
const METHODS: [&str; 4] = ["GET", "PUT", "DELETE", "other"];

/// The metrics of the requests of all pools.
#[derive(Debug)]
pub(crate) struct HttpMetrics {
    by_pool: BTreeMap<Arc<str>, PoolSeries>,
    /// The metrics of requests without a known pool.
    of_no_pool: Arc<NamespaceSeries>,
}

/// The metrics of the requests of a pool.
#[derive(Debug)]
struct PoolSeries {
    namespaces: SeriesTable<Namespace, NamespaceSeries>,
    /// The metrics of requests without a valid token for a namespace.
    of_no_namespace: Arc<NamespaceSeries>,
}

/// The metrics of the requests of a namespace. A series is shown from its first event on.
#[derive(Debug)]
struct NamespaceSeries {
    /// By the number of the endpoint, then by method.
    endpoints: [OnceLock<Box<EndpointSeries>>; ENDPOINTS_MAX * METHODS.len()],
    /// Rejected consumes and publishes, by [`LimitedAction`].
    limited: [AtomicU64; 2],
}

#[derive(Debug)]
struct EndpointSeries {
    name: &'static str,
    latency: Histogram,
    codes: Mutex<Vec<(StatusCode, u64)>>,
}

impl HttpMetrics {
    /// Creates the metrics for the pools of an engine. At most `namespaces_max` namespaces of each pool have metrics of
    /// their own.
    pub(crate) fn new(engine: &Engine, namespaces_max: usize) -> Self {
        let pools = engine.pools().map(|pool| Arc::clone(&pool.name));
        let of_pool = |pool: Arc<str>| (pool, PoolSeries::new(namespaces_max));
        Self {
            by_pool: pools.map(of_pool).collect(),
            of_no_pool: Arc::default(),
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
            pool.of(namespace).limited[action as usize].fetch_add(1, Relaxed);
        }
    }

    /// The families of requests.
    pub(crate) fn families(&self) -> Vec<MetricFamily> {
        let rows = self.rows();
        let rows = || {
            rows.iter()
                .map(|(labels, it)| (labels.each_ref().map(String::as_str), it))
        };
        let endpoints = rows().flat_map(|([pool, namespace], series)| {
            let endpoints = series.endpoints.iter().zip(METHODS.into_iter().cycle());
            endpoints.filter_map(move |(endpoint, method)| {
                let endpoint = &**endpoint.get()?;
                Some(([pool, namespace, endpoint.name, method], endpoint))
            })
        });
        let endpoints: Vec<_> = endpoints.collect();
        let latencies = endpoints.iter();
        let latencies = latencies.map(|(labels, endpoint)| (*labels, &endpoint.latency));
        let codes = endpoints.iter();
        let codes = codes.flat_map(|([pool, namespace, api, method], endpoint)| {
            let codes = endpoint.codes.lock().clone().into_iter();
            codes.map(move |(code, count)| {
                let labels = [pool, namespace, api, method, code.as_str()];
                (labels.map(str::to_owned), count)
            })
        });
        let limited = rows().flat_map(|([pool, namespace], series)| {
            let actions = [LimitedAction::Consume, LimitedAction::Produce].into_iter();
            actions.map(move |action| {
                let count = series.limited[action as usize].load(Relaxed);
                ([pool, namespace, action.name()], count)
            })
        });
        let limited = limited.filter(|(_, count)| *count > 0);
        vec![
            histograms_of_scrape(LATENCY, ["pool", "namespace", "api", "method"], latencies),
            counters_of_scrape(CODES, ["pool", "namespace", "api", "method", "code"], codes),
            counters_of_scrape(RATE_LIMIT, ["pool", "namespace", "action"], limited),
        ]
    }

    /// The metrics of all namespaces, with the names of pool and namespace; a name is empty if it is unknown.
    fn rows(&self) -> Vec<([String; 2], Arc<NamespaceSeries>)> {
        let of_pools = self.by_pool.iter().flat_map(|(pool, of_pool)| {
            let unknown = (String::new(), Arc::clone(&of_pool.of_no_namespace));
            let named = of_pool.namespaces.rows().into_iter();
            let named = named.map(|(namespace, series)| {
                let name = namespace.as_ref().map_or(OTHER, Namespace::as_str);
                (name.to_owned(), series)
            });
            let all = [unknown].into_iter().chain(named);
            all.map(|(namespace, series)| ([pool.to_string(), namespace], series))
        });
        let of_no_pool = ([String::new(), String::new()], Arc::clone(&self.of_no_pool));
        [of_no_pool].into_iter().chain(of_pools).collect()
    }
}

impl PoolSeries {
    fn new(namespaces_max: usize) -> Self {
        Self {
            namespaces: SeriesTable::new(namespaces_max),
            of_no_namespace: Arc::default(),
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

impl Default for NamespaceSeries {
    fn default() -> Self {
        Self {
            endpoints: [const { OnceLock::new() }; ENDPOINTS_MAX * METHODS.len()],
            limited: Default::default(),
        }
    }
}

impl NamespaceSeries {
    fn answered(&self, endpoint: Endpoint, method: &Method, status: StatusCode, took: Duration) {
        let position = usize::from(endpoint.number) * METHODS.len() + method_number(method);
        let new = || Box::new(EndpointSeries::new(endpoint.name));
        self.endpoints[position]
            .get_or_init(new)
            .answered(status, took);
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
    fn new(name: &'static str) -> Self {
        // 15 ms times the powers of 2.5, as in lmstfy.
        let bounds = exponential_buckets(15.0, 2.5, 9).expect("valid buckets");
        Self {
            name,
            latency: histogram(&bounds),
            codes: Mutex::default(),
        }
    }

    fn answered(&self, status: StatusCode, took: Duration) {
        self.count(status);
        if status.as_u16() < 300 {
            self.latency.observe(took.as_secs_f64() * 1000.0);
        }
    }

    fn count(&self, status: StatusCode) {
        let mut codes = self.codes.lock();
        match codes.iter_mut().find(|(code, _)| *code == status) {
            Some((_, count)) => *count += 1,
            None => codes.push((status, 1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_pools<const POOLS: usize>(pools: [&str; POOLS]) -> HttpMetrics {
        HttpMetrics {
            by_pool: pools.map(|pool| (pool.into(), PoolSeries::new(1))).into(),
            of_no_pool: Arc::default(),
        }
    }

    fn namespace(name: &str) -> Namespace {
        Namespace::try_from(name).unwrap()
    }

    fn text(metrics: &HttpMetrics) -> String {
        let mut families = metrics.families();
        families.retain(|family| !family.get_metric().is_empty());
        let text = prometheus::TextEncoder::new().encode_to_string(&families);
        text.unwrap()
    }

    /// Otherwise both would have the same series.
    #[test]
    fn a_namespace_with_the_name_of_the_others_is_counted_with_them() {
        let of_pool = PoolSeries::new(1);
        let of = |name: &str| of_pool.of(&namespace(name));
        let others = of_pool.namespaces.others();
        assert!(Arc::ptr_eq(&of(OTHER), &others));
        assert!(!Arc::ptr_eq(&of("a"), &others));
        assert!(Arc::ptr_eq(&of("b"), &others));
    }

    #[test]
    fn each_route_and_method_has_own_series() {
        let metrics = of_pools(["p"]);
        let series = metrics.by_pool["p"].of(&namespace("n"));
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
        metrics.limited("p", &namespace("n"), LimitedAction::Produce);
        let shown = text(&metrics);
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
    }

    #[test]
    fn namespaces_of_two_pools_have_own_series() {
        let metrics = of_pools(["a", "ab"]);
        metrics.limited("a", &namespace("bc"), LimitedAction::Produce);
        metrics.limited("ab", &namespace("c"), LimitedAction::Produce);
        let shown = text(&metrics);
        for labels in [r#"namespace="bc",pool="a""#, r#"namespace="c",pool="ab""#] {
            assert!(shown.contains(labels), "{labels} is not in\n{shown}");
        }
    }
}

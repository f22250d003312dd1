//! What is counted of requests: by pool, namespace, route and method.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{OnceLock, PoisonError, RwLock};
use std::time::Duration;

use axum::http::{Method, StatusCode};
use tidegate_service::metrics::{Family, Kind, MillisHistogram, Page};

use crate::limits::Action;
use crate::lmstfy::routes::Template;

pub(super) const LATENCY: Family = Family {
    name: "infra_lmstfy_http_latency_milliseconds",
    kind: Kind::Histogram,
    help: "From the end of a request's header to its answer, if it succeeded; a long poll includes its wait",
};
pub(super) const CODES: Family = Family {
    name: "infra_lmstfy_http_http_codes",
    kind: Kind::Counter,
    help: "Answered requests, by status",
};
pub(super) const RATE_LIMIT: Family = Family {
    name: "infra_lmstfy_http_rate_limit",
    kind: Kind::Counter,
    help: "Requests that were refused because of the rate limit of their token, by action",
};

/// 15 ms times a power of 2.5.
const LATENCY_BOUNDS_MS: [f64; 9] = [
    15.0,
    37.5,
    93.75,
    234.375,
    585.937_5,
    1_464.843_75,
    3_662.109_375,
    9_155.273_437_5,
    22_888.183_593_75,
];

/// The labels of methods. Methods are the client's choice, labels are not.
const METHODS: [&str; 4] = ["GET", "PUT", "DELETE", "other"];

/// The requests of a namespace.
#[derive(Debug)]
pub(crate) struct RequestFigures {
    /// By template, then by method.
    endpoints: [OnceLock<Box<Endpoint>>; Template::ALL.len() * METHODS.len()],
    /// Refused consumes and publishes.
    limited: [AtomicU64; 2],
}

#[derive(Debug)]
struct Endpoint {
    latency: MillisHistogram,
    codes: RwLock<Vec<(u16, AtomicU64)>>,
}

impl Default for RequestFigures {
    fn default() -> Self {
        Self {
            endpoints: [const { OnceLock::new() }; Template::ALL.len() * METHODS.len()],
            limited: Default::default(),
        }
    }
}

impl RequestFigures {
    /// A request that matched this template was answered.
    pub(crate) fn answered(
        &self,
        template: Template,
        method: &Method,
        status: StatusCode,
        took: Duration,
    ) {
        let endpoint = self.endpoints[place(template, method)].get_or_init(Box::default);
        endpoint.count(status.as_u16());
        if status.as_u16() < 300 {
            endpoint.latency.record(took);
        }
    }

    /// A request was refused because its token has a limit.
    pub(super) fn limited(&self, action: Action) {
        self.limited[action as usize].fetch_add(1, Ordering::Relaxed);
    }
}

fn place(template: Template, method: &Method) -> usize {
    let method = match *method {
        Method::GET => 0,
        Method::PUT => 1,
        Method::DELETE => 2,
        _ => METHODS.len() - 1,
    };
    template as usize * METHODS.len() + method
}

impl Default for Endpoint {
    fn default() -> Self {
        Self {
            latency: MillisHistogram::new(&LATENCY_BOUNDS_MS),
            codes: RwLock::default(),
        }
    }
}

impl Endpoint {
    fn count(&self, code: u16) {
        let codes = self.codes.read().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, count)) = codes.iter().find(|(known, _)| *known == code) {
            count.fetch_add(1, Ordering::Relaxed);
            return;
        }
        drop(codes);
        let mut codes = self.codes.write().unwrap_or_else(PoisonError::into_inner);
        match codes.iter().find(|(known, _)| *known == code) {
            Some((_, count)) => drop(count.fetch_add(1, Ordering::Relaxed)),
            None => codes.push((code, AtomicU64::new(1))),
        }
    }
}

/// Requests with the pool and the namespace that they were for; empty where these are not known.
pub(super) struct Told<'a> {
    pub(super) pool: &'a str,
    pub(super) namespace: &'a str,
    pub(super) figures: &'a RequestFigures,
}

/// Writes the families of requests.
pub(super) fn write(page: &mut Page, all: &[Told<'_>]) {
    let mut latencies = page.family(&LATENCY);
    for told in all {
        for (labels, endpoint) in told.endpoints() {
            if !endpoint.latency.is_empty() {
                latencies.add_histogram(&labels, &endpoint.latency);
            }
        }
    }
    let mut codes = page.family(&CODES);
    for told in all {
        for ([pool, namespace, api, method], endpoint) in told.endpoints() {
            let known = endpoint
                .codes
                .read()
                .unwrap_or_else(PoisonError::into_inner);
            for (code, count) in known.iter() {
                let code = code.to_string();
                let labels = [pool, namespace, api, method, ("code", code.as_str())];
                codes.add(&labels, count.load(Ordering::Relaxed));
            }
        }
    }
    let mut limited = page.family(&RATE_LIMIT);
    for Told {
        pool,
        namespace,
        figures,
    } in all
    {
        for action in [Action::Consume, Action::Produce] {
            let count = figures.limited[action as usize].load(Ordering::Relaxed);
            if count > 0 {
                let labels = [
                    ("pool", *pool),
                    ("namespace", *namespace),
                    ("action", action.name()),
                ];
                limited.add(&labels, count);
            }
        }
    }
}

impl<'a> Told<'a> {
    fn endpoints(&self) -> impl Iterator<Item = ([(&'a str, &'a str); 4], &'a Endpoint)> {
        let (pool, namespace) = (self.pool, self.namespace);
        let endpoints = self.figures.endpoints.iter().enumerate();
        endpoints.filter_map(move |(place, endpoint)| {
            let labels = [
                ("pool", pool),
                ("namespace", namespace),
                ("api", Template::ALL[place / METHODS.len()].name()),
                ("method", METHODS[place % METHODS.len()]),
            ];
            Some((labels, &**endpoint.get()?))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_route_and_method_is_told_apart() {
        let figures = RequestFigures::default();
        let queue = Template::Queue;
        let ms = Duration::from_millis;
        figures.answered(queue, &Method::GET, StatusCode::OK, ms(20));
        figures.answered(queue, &Method::GET, StatusCode::NOT_FOUND, ms(20));
        figures.answered(queue, &Method::PUT, StatusCode::CREATED, ms(20));
        figures.answered(
            Template::Unmatched,
            &Method::OPTIONS,
            StatusCode::NOT_FOUND,
            ms(20),
        );
        figures.limited(Action::Produce);
        let mut page = Page::default();
        let told = Told {
            pool: "p",
            namespace: "n",
            figures: &figures,
        };
        write(&mut page, &[told]);
        let text = page.into_text();
        let labels = r#"pool="p",namespace="n",api="/api/:namespace/:queue""#;
        for expected in [
            format!(r#"http_http_codes{{{labels},method="GET",code="200"}} 1"#),
            format!(r#"http_http_codes{{{labels},method="GET",code="404"}} 1"#),
            format!(r#"http_http_codes{{{labels},method="PUT",code="201"}} 1"#),
            format!(r#"http_latency_milliseconds_bucket{{{labels},method="GET",le="37.5"}} 1"#),
            format!(r#"http_latency_milliseconds_count{{{labels},method="GET"}} 1"#),
            r#"http_http_codes{pool="p",namespace="n",api="",method="other",code="404"} 1"#
                .to_owned(),
            r#"http_rate_limit{pool="p",namespace="n",action="produce"} 1"#.to_owned(),
        ] {
            assert!(text.contains(&expected), "{expected} is not in\n{text}");
        }
        assert!(!text.contains("consume"), "{text}");
    }
}

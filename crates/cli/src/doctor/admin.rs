//! The admin port of an API: version, accounts, pools, Redis.

use hyper::header::{AUTHORIZATION, HeaderValue};
use serde::Deserialize;
use tidegate_core::v1::cold::ColdTierView;

use super::metrics::{MetricSample, of_pool, samples};
use super::reach::{ReachedServer, reach};
use super::report::DoctorReport;
use crate::failure::CommandFailure;
use crate::probe::{PASSWORD, ProbeRequest, login};

/// As in the alerts of docs/operating.md.
const MEMORY_SHARE: f64 = 0.8;

#[derive(Deserialize)]
struct VersionAnswer {
    version: String,
}

/// Checks the admin port of an API.
///
/// # Errors
/// An account was named, and its password was not given.
pub(super) async fn check_admin(
    report: &mut DoctorReport,
    url: &str,
    user: Option<&str>,
) -> Result<(), CommandFailure> {
    let login = user.map(login).transpose()?;
    let Some(server) = reach(report, "admin", url).await else {
        return Ok(());
    };
    let Ok(answer) = server.probe.get(&format!("{}/version", server.url)).await else {
        report.problem(
            "version",
            "/version is not answered",
            "check the log of the server",
        );
        return Ok(());
    };
    let Some(version) = answer.json::<VersionAnswer>() else {
        report.problem(
            "admin",
            format!("{} is not the admin port of an API", server.url),
            "use the port of `admin_listen` of tidegate-api with --admin, 7778 by default",
        );
        return Ok(());
    };
    check_version(report, &version.version);
    check_accounts(report, &server, login).await;
    check_pools(report, &server).await;
    check_cold(report, &server).await;
    Ok(())
}

/// Checks that the API reads the object stores of all pools that have a cold tier.
async fn check_cold(report: &mut DoctorReport, server: &ReachedServer) {
    const CHECK: &str = "cold";
    let answer = server.probe.get(&format!("{}/cold", server.url)).await;
    let views: Option<Vec<ColdTierView>> = answer.ok().and_then(|answer| answer.json());
    let Some(views) = views else {
        let remedy = "check the log of the server";
        return report.problem(CHECK, "/cold is not answered", remedy);
    };
    for view in views {
        let ColdTierView {
            pool,
            frozen_payloads,
            ..
        } = &view;
        match &view.problem {
            None => report.ok(
                CHECK,
                format!("pool {pool}: the object store answers; payloads that are there only: {frozen_payloads}"),
            ),
            Some(problem) => report.problem(
                CHECK,
                format!("pool {pool}: {problem}; payloads that are there only: {frozen_payloads}"),
                "set cold_url and the credentials as for the pumps, and check that the API reaches the object store: docs/cold-tier.md",
            ),
        }
    }
}

fn check_version(report: &mut DoctorReport, server: &str) {
    let own = env!("CARGO_PKG_VERSION");
    match server == own {
        true => report.ok("version", format!("the server and this program are {own}")),
        false => report.problem(
            "version",
            format!("the server is {server}, this program is {own}"),
            "install the command line of the same release as the server",
        ),
    }
}

/// Looks at a list that needs an account, if there are accounts: first without one.
async fn check_accounts(
    report: &mut DoctorReport,
    server: &ReachedServer,
    login: Option<HeaderValue>,
) {
    const CHECK: &str = "accounts";
    const LOG: &str = "check the log of the server";
    let url = format!("{}/limits", server.url);
    let status = async |login: Option<HeaderValue>| {
        let login = login.map(|login| (AUTHORIZATION, login));
        let request = ProbeRequest {
            headers: login.into_iter().collect(),
            ..ProbeRequest::default()
        };
        let answer = server.probe.send(&url, request).await;
        answer.map(|answer| answer.status)
    };
    let has_login = login.is_some();
    let answered = match status(None).await {
        Ok(401) if has_login => status(login).await,
        Ok(401) => return report.ok(CHECK, "the admin port needs an account"),
        Ok(200) if is_loopback(&server.url) => {
            let text = "the admin port has no accounts, and was reached on a loopback address";
            return report.ok(CHECK, text);
        }
        Ok(200) => {
            return report.problem(
                CHECK,
                "every client that reaches the admin port has access to it",
                "set [accounts] in the settings of tidegate-api, or listen on a loopback address",
            );
        }
        other => other,
    };
    match answered {
        Ok(200) => report.ok(CHECK, "the admin port accepts the account"),
        Ok(403) => report.ok(
            CHECK,
            "the account is valid, and may use the dashboard only",
        ),
        Ok(401) => report.problem(
            CHECK,
            "the admin port rejects the account or its password",
            format!(
                "check --admin-user and {PASSWORD}; accounts are in the settings of tidegate-api"
            ),
        ),
        Ok(status) => report.problem(CHECK, format!("/limits is answered {status}"), LOG),
        Err(error) => report.problem(CHECK, error, LOG),
    }
}

fn is_loopback(url: &str) -> bool {
    let uri: Option<hyper::Uri> = url.parse().ok();
    let host = uri.as_ref().and_then(hyper::Uri::host).unwrap_or_default();
    let address = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

async fn check_pools(report: &mut DoctorReport, server: &ReachedServer) {
    let pools = server.probe.get(&format!("{}/pools", server.url)).await;
    let pools: Option<Vec<String>> = pools.ok().and_then(|answer| answer.json());
    let page = server.probe.get(&format!("{}/metrics", server.url)).await;
    let (Some(pools), Ok(page)) = (pools, page) else {
        let remedy = "check the log of the server";
        return report.problem("pools", "/pools or /metrics is not answered", remedy);
    };
    let page = page.text();
    let samples = samples(&page);
    for pool in pools {
        check_pool(report, &samples, &pool);
    }
}

fn check_pool(report: &mut DoctorReport, samples: &[MetricSample<'_>], pool: &str) {
    if of_pool(samples, "infra_lmstfy_redis_used_mem_bytes", pool).is_none() {
        return report.problem(
            "pool",
            format!("pool {pool}: the server gets no answer from Redis"),
            "check that Redis runs, answers within 3 s, and that the server reaches it; the log of the server has the reason",
        );
    }
    report.ok("pool", format!("pool {pool}: Redis answers"));
    check_layout(report, samples, pool);
    check_memory(report, samples, pool);
    check_settings(report, samples, pool);
}

/// Checks that Redis was not emptied or replaced. Their `/readyz` answers 503 then.
fn check_layout(report: &mut DoctorReport, samples: &[MetricSample<'_>], pool: &str) {
    const CHECK: &str = "layout";
    match of_pool(samples, "tidegate_redis_other_layout", pool) {
        Some(0.0) => report.ok(
            CHECK,
            format!("pool {pool}: Redis has the data of this deployment"),
        ),
        Some(_) => report.problem(
            CHECK,
            format!("pool {pool}: the key tg:layout of Redis is missing or another one: Redis was emptied or replaced"),
            "stop the daemons, restore the data of Redis from its append-only file or a replica, and start them; without a \
             copy, restart all daemons: they begin with the jobs that Redis has now",
        ),
        None => report.skipped(
            CHECK,
            format!("pool {pool}: whether Redis has the data of this deployment is unknown"),
        ),
    }
}

fn check_memory(report: &mut DoctorReport, samples: &[MetricSample<'_>], pool: &str) {
    let value = |name| of_pool(samples, name, pool);
    let max = value("infra_lmstfy_redis_max_mem_bytes");
    let used = value("infra_lmstfy_redis_used_mem_bytes");
    let (Some(max), Some(used)) = (max, used) else {
        return report.skipped(
            "memory",
            format!("pool {pool}: the memory of Redis is unknown"),
        );
    };
    if max == 0.0 {
        return report.problem(
            "memory",
            format!("pool {pool}: Redis has no memory limit, so the system may kill it"),
            "set maxmemory in the configuration of Redis, with a fifth of the machine's memory left (docs/operating.md)",
        );
    }
    let percent = used / max * 100.0;
    let detail = format!("pool {pool}: Redis uses {percent:.0} % of its memory limit");
    match used > max * MEMORY_SHARE {
        true => report.problem(
            "memory",
            format!("{detail}; at 100 % publishes are rejected"),
            "raise maxmemory, take jobs out of queues (tidegate top), or add a pool",
        ),
        false => report.ok("memory", detail),
    }
}

/// Checks the settings of Redis with which it may lose jobs. The daemons check them only when they connect.
fn check_settings(report: &mut DoctorReport, samples: &[MetricSample<'_>], pool: &str) {
    const CHECK: &str = "redis";
    let value = |name| of_pool(samples, name, pool);
    let without_file = value("tidegate_redis_without_append_only_file");
    let evicting = value("tidegate_redis_evicting");
    let (Some(without_file), Some(evicting)) = (without_file, evicting) else {
        let detail = format!("pool {pool}: appendonly and maxmemory-policy of Redis are unknown");
        return report.skipped(CHECK, detail);
    };
    if without_file > 0.0 {
        report.problem(
            CHECK,
            format!("pool {pool}: Redis servers without an append-only file: {without_file}. A restart loses jobs"),
            "set `appendonly yes` in the configuration of Redis, and with CONFIG SET where it runs",
        );
    }
    if evicting > 0.0 {
        report.problem(
            CHECK,
            format!("pool {pool}: Redis servers that delete jobs when they reach their memory limit: {evicting}"),
            "set `maxmemory-policy noeviction` in the configuration of Redis, and with CONFIG SET where it runs",
        );
    }
    if without_file == 0.0 && evicting == 0.0 {
        report.ok(
            CHECK,
            format!(
                "pool {pool}: each Redis that answers has an append-only file, and evicts no jobs"
            ),
        );
    }
}

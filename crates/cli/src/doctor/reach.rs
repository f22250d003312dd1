//! Whether a URL leads to a server that answers HTTP, and which server that is.

use std::io;
use std::time::Duration;

use hyper::Uri;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

use super::report::DoctorReport;
use crate::probe::{HttpProbe, ProbeAnswer};

/// How long a name is looked up, and how long each of its addresses is tried.
const LIMIT: Duration = Duration::from_secs(5);

/// A server that answers HTTP.
#[derive(Debug)]
pub(super) struct ReachedServer {
    pub(super) probe: HttpProbe,
    /// Without a slash at the end.
    pub(super) url: String,
    pub(super) health: ProbeAnswer,
}

/// The server at an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReachedKind {
    AdminPort,
    PumpOrRelay,
    Unknown,
}

/// Why there is no answer, and the remedy.
struct Unreachable {
    detail: String,
    remedy: String,
}

impl Unreachable {
    fn new(detail: String, remedy: impl Into<String>) -> Self {
        let remedy = remedy.into();
        Self { detail, remedy }
    }
}

/// Checks the way to a server step by step: the URL, the name, the port, TLS, HTTP. `None` if a step fails; the report
/// names it.
pub(super) async fn reach(
    report: &mut DoctorReport,
    check: &'static str,
    url: &str,
) -> Option<ReachedServer> {
    match try_reach(url.trim_end_matches('/')).await {
        Ok(server) => {
            report.ok(check, format!("{} answers", server.url));
            Some(server)
        }
        Err(unreachable) => {
            report.problem(check, unreachable.detail, unreachable.remedy);
            None
        }
    }
}

async fn try_reach(url: &str) -> Result<ReachedServer, Unreachable> {
    let (host, port) = host_and_port(url).ok_or_else(|| {
        // It may have a password.
        let detail = "the URL names no server".to_owned();
        Unreachable::new(
            detail,
            "write it like http://127.0.0.1:7777 or https://tidegate.example.com",
        )
    })?;
    connect(&host, port).await?;
    let probe =
        HttpProbe::new(url).map_err(|error| Unreachable::new(error.detail, error.remedy))?;
    match probe.get(&format!("{url}/healthz")).await {
        Ok(health) => Ok(ReachedServer {
            probe,
            url: url.to_owned(),
            health,
        }),
        Err(error) if url.starts_with("https:") => Err(tls_failed(&host, port, &error)),
        Err(error) => Err(Unreachable::new(
            format!("{host}:{port} does not answer HTTP: {error}"),
            "check the port; if the server expects TLS, write https:// in the URL",
        )),
    }
}

fn host_and_port(url: &str) -> Option<(String, u16)> {
    let uri: Uri = url.parse().ok()?;
    let is_tls = match uri.scheme_str()? {
        "http" => false,
        "https" => true,
        _ => return None,
    };
    if uri.authority()?.as_str().contains('@') || uri.query().is_some() {
        return None;
    }
    let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
    let host = uri.host()?.trim_matches(['[', ']']);
    Some((host.to_owned(), port))
}

async fn connect(host: &str, port: u16) -> Result<(), Unreachable> {
    let looked_up = timeout(LIMIT, lookup_host((host, port))).await;
    let looked_up = looked_up.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
    let addresses = looked_up.map_err(|error| {
        let detail = format!("the name {host} has no address: {error}");
        Unreachable::new(
            detail,
            "check the spelling of the URL, and the DNS of this machine",
        )
    })?;
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in addresses {
        let connecting = timeout(LIMIT, TcpStream::connect(address)).await;
        match connecting.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
            Ok(_) => return Ok(()),
            Err(error) => last = error,
        }
    }
    Err(match last.kind() {
        io::ErrorKind::ConnectionRefused => Unreachable::new(
            format!("no process listens on {host}:{port}"),
            "start the server; if it does not stay up, its log has the reason, such as data of another layout. Or correct the port: \
             `listen` of tidegate-api is 127.0.0.1:7777 by default, and its `admin_listen` 127.0.0.1:7778",
        ),
        io::ErrorKind::TimedOut => Unreachable::new(
            format!("{host}:{port} did not accept a connection within {LIMIT:?}"),
            "check firewalls between this machine and the server, and the address",
        ),
        _ => Unreachable::new(
            format!("failed to connect to {host}:{port}: {last}"),
            "check the address, and the network of this machine",
        ),
    })
}

fn tls_failed(host: &str, port: u16, error: &str) -> Unreachable {
    let remedy = if error.contains("certificate") {
        format!(
            "the certificate must be valid now, have the name {host}, and be issued by an authority that this system trusts: \
             add the authority to the system, or point SSL_CERT_FILE at its PEM file"
        )
    } else {
        "if the port does not speak TLS, write http:// in the URL".to_owned()
    };
    Unreachable::new(format!("TLS with {host}:{port} failed: {error}"), remedy)
}

impl ReachedServer {
    /// The server that answers instead of the expected port.
    pub(super) async fn kind(&self) -> ReachedKind {
        let version = self.probe.get(&format!("{}/version", self.url)).await;
        if version
            .is_ok_and(|answer| answer.status == 200 && answer.text().contains("build_commit"))
        {
            return ReachedKind::AdminPort;
        }
        let metrics = self.probe.get(&format!("{}/metrics", self.url)).await;
        match metrics.is_ok_and(|answer| answer.text().contains("tidegate_")) {
            true => ReachedKind::PumpOrRelay,
            false => ReachedKind::Unknown,
        }
    }

    /// Checks `/readyz`. `check` names the server in the report.
    pub(super) async fn check_ready(&self, report: &mut DoctorReport, check: &'static str) {
        match self.probe.get(&format!("{}/readyz", self.url)).await {
            Ok(answer) if answer.status == 200 => report.ok(check, "/readyz: ready"),
            Ok(answer) if answer.status == 503 => report.problem(
                check,
                format!("/readyz: {}", answer.text().replace('\n', "; ")),
                "check Redis and the way to it from the server; the log of the server has the reason (docs/operating.md)",
            ),
            Ok(answer) => report.skipped(
                check,
                format!("/readyz answers {}: a proxy does not pass it on", answer.status),
            ),
            Err(error) => report.problem(
                check,
                format!("/readyz: {error}"),
                "check the log of the server",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_follows_from_the_scheme() {
        let found = |url| host_and_port(url).map(|(host, port)| format!("{host} {port}"));
        assert_eq!(found("http://a").as_deref(), Some("a 80"));
        assert_eq!(found("https://a/tide").as_deref(), Some("a 443"));
        assert_eq!(found("http://[::1]:7777").as_deref(), Some("::1 7777"));
        for url in [
            "",
            "a:7777",
            "ftp://a",
            "http://user:secret@a",
            "http://a?b=c",
        ] {
            assert_eq!(found(url), None, "{url}");
        }
    }
}

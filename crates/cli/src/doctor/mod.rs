//! `tidegate doctor`: checks a deployment from outside, and names a remedy for each problem. It changes nothing.

mod admin;
mod clock;
mod key;
mod metrics;
mod pumps;
mod reach;
mod report;

use clap::Args;
use jiff::Timestamp;
use tidegate::Scope;

use crate::arguments::choice::choice;
use crate::arguments::connection::ConnectionArguments;
use crate::failure::CommandFailure;
pub(crate) use report::DoctorReport;

#[derive(Debug, Args)]
#[command(
    after_help = "Checks the way to the server (name, port, TLS), /healthz and /readyz, the clock, and the API key with its scopes.
No request changes anything. The password of --admin-user is taken from TG_ADMIN_PASSWORD.

Example:
  tidegate doctor --admin http://127.0.0.1:7778 --pump http://127.0.0.1:7779"
)]
pub(crate) struct DoctorArguments {
    /// A scope that the key needs: publish, consume, read or admin. May be repeated, or have several with commas.
    #[arg(long = "scope", value_delimiter = ',', value_parser = choice::<Scope>)]
    scopes: Vec<Scope>,
    /// Also checks this admin port of an API: version, accounts, pools, Redis.
    #[arg(long, value_name = "URL")]
    admin: Option<String>,
    /// The account for the admin port.
    #[arg(long, value_name = "NAME", requires = "admin")]
    admin_user: Option<String>,
    /// Also checks this port of a pump, and the timers in its buckets. May be repeated.
    #[arg(long = "pump", value_name = "URL")]
    pumps: Vec<String>,
}

/// Runs all checks that are possible.
///
/// # Errors
/// An account was named, and its password was not given. Everything else is in the report.
pub(crate) async fn check(
    connection: &ConnectionArguments,
    arguments: &DoctorArguments,
) -> Result<DoctorReport, CommandFailure> {
    let mut report = DoctorReport::default();
    let before = Timestamp::now();
    if let Some(server) = reach::reach(&mut report, "server", &connection.url).await {
        clock::check_clock(
            &mut report,
            before,
            Timestamp::now(),
            &server.health.headers,
        );
        server.check_ready(&mut report, "ready").await;
        key::check_key(&mut report, &server, connection, &arguments.scopes).await;
    }
    if let Some(url) = &arguments.admin {
        let user = arguments.admin_user.as_deref();
        admin::check_admin(&mut report, url, user).await?;
    }
    pumps::check_pumps(&mut report, &arguments.pumps).await;
    Ok(report)
}

//! The text that is printed once everything is running.

use std::fmt::Write;

use super::dev_run::DevRun;
use super::options::Options;
use super::{demo, relay};
use crate::workspace::Workspace;

pub(crate) fn welcome_text(
    options: &Options,
    run: &DevRun,
    workspace: &Workspace,
    redis: &str,
) -> String {
    let session = &run.session;
    let mut text = String::from("\nTidegate is running. Ctrl-C stops it.\n\n");
    let _ = writeln!(
        text,
        "  API    http://127.0.0.1:{}    admin  http://127.0.0.1:{}",
        options.port, options.admin_port
    );
    let _ = writeln!(text, "  look   http://127.0.0.1:{}/ui", options.admin_port);
    let _ = writeln!(text, "  Redis  {redis}");
    for daemon in &session.daemons {
        let log = workspace.display(daemon.log());
        let _ = writeln!(text, "  log    {log}  (process {})", daemon.pid());
    }
    let nodes = session.cluster.iter().flat_map(|cluster| &cluster.servers);
    for redis in session.redis.iter().chain(nodes) {
        let log = redis.log_path();
        let _ = writeln!(
            text,
            "  log    {}  (process {})",
            workspace.display(&log),
            redis.pid().unwrap_or_default()
        );
    }
    if options.cold {
        let folder = workspace.target().join("dev/cold");
        let _ = writeln!(
            text,
            "  cold   {}: publish a job that is due in an hour, and after some seconds its payload is there",
            workspace.display(&folder)
        );
        let port = options.admin_port;
        let _ = writeln!(
            text,
            "         tidegate cold status --admin http://127.0.0.1:{port}"
        );
    }
    text.push_str(
        "\nPaste these commands in another terminal. They publish a job with a key and a delay, replace it, take it, report\n\
         that it failed, take it again, and acknowledge it.\n\n",
    );
    text.push_str(&demo::session(options.port));
    text.push('\n');
    if let Some((broker, admin_port)) = &run.broker {
        text.push_str(&relay::session(broker, *admin_port, options.port));
    }
    text
}

use std::time::Duration;

use clap::Args;

use crate::Error;
use crate::report::Goal;
use crate::run::Run;

/// The flags of `idle`.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// How long to look, in seconds
    #[arg(long, default_value_t = 30.0)]
    seconds: f64,
    /// How long to leave the server alone before, in seconds
    #[arg(long, default_value_t = 5.0)]
    settle: f64,
}

impl Options {
    pub(crate) async fn run(&self, run: &mut Run<'_>) -> Result<(), Error> {
        run.report.load = "none".to_owned();
        run.report.parameter("seconds", self.seconds);
        let mut redis = run.server.redis("idle")?;
        run.pause(
            "leaving the server alone",
            Duration::from_secs_f64(self.settle),
        )
        .await;
        let before = redis.commands()?;
        let meter = run.meter()?;
        run.pause("looking", Duration::from_secs_f64(self.seconds))
            .await;
        let usage = meter.read()?;
        // Each look is a command, too.
        let commands = redis.commands()? - before - 1.0;
        let report = &mut run.report;
        report.aimed(
            "Redis commands",
            commands / usage.seconds,
            "/s",
            Goal::AtMost(50.0),
        );
        for (name, cpu) in &usage.processes {
            report.figure(
                format!("CPU of {name}"),
                cpu / usage.seconds * 100.0,
                "% of a core",
            );
        }
        if !usage.processes.is_empty() {
            let cpu = usage.servers() / usage.seconds * 100.0;
            report.aimed("CPU of all", cpu, "% of a core", Goal::AtMost(1.0));
        }
        Ok(())
    }
}

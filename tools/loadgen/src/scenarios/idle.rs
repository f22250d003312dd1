use std::time::Duration;

use clap::Args;

use crate::error::LoadgenError;
use crate::report::Goal;
use crate::run::ScenarioRun;

/// The flags of `idle`.
#[derive(Debug, Clone, Args)]
pub struct IdleOptions {
    /// Seconds to measure
    #[arg(long, default_value_t = 30.0)]
    seconds: f64,
    /// Seconds to wait before the measurement
    #[arg(long, default_value_t = 5.0)]
    settle: f64,
}

impl IdleOptions {
    pub(crate) async fn run(&self, run: &mut ScenarioRun<'_>) -> Result<(), LoadgenError> {
        run.report.load = "none".to_owned();
        run.report.parameter("seconds", self.seconds);
        let mut redis = run.server.redis("idle")?;
        run.pause(
            "waiting for the server to settle",
            Duration::from_secs_f64(self.settle),
        )
        .await;
        let before = redis.commands()?;
        let meter = run.meter()?;
        run.pause("measuring", Duration::from_secs_f64(self.seconds))
            .await;
        let usage = meter.read()?;
        // The second reading itself counts as a command.
        let commands = redis.commands()? - before - 1.0;
        let report = &mut run.report;
        report.figure_with_goal(
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
            let cpu = usage.server_seconds() / usage.seconds * 100.0;
            report.figure_with_goal("CPU of all", cpu, "% of a core", Goal::AtMost(1.0));
        }
        Ok(())
    }
}

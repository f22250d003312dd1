//! Commands for schedules.

use serde::Serialize;
use serde_json::{Map, Value, json};
use tidegate::api::values::JsonText;
use tidegate::{Client, Error, Precondition, ProblemCode, Schedule, ScheduleDetails, Timestamp};

use super::new_job::{duration, with_content};
use crate::arguments::schedule::{ScheduleCommand, SeenArguments, SetArguments};
use crate::failure::CommandFailure;
use crate::output::CommandOutput;

type ScheduleOutput = Result<CommandOutput, CommandFailure>;

pub(super) async fn execute(client: &Client, command: ScheduleCommand) -> ScheduleOutput {
    match command {
        ScheduleCommand::Ls => list(&client.schedules().await?),
        ScheduleCommand::Show { name, runs } => {
            let schedule = client.schedule(&name)?;
            let details = schedule.show().await?;
            show(&details, Some(&schedule.next_runs(runs).await?))
        }
        ScheduleCommand::Set(arguments) => set(client, *arguments).await,
        ScheduleCommand::Pause { name } => {
            show(&client.schedule(&name)?.set_paused(true).await?, None)
        }
        ScheduleCommand::Resume { name } => {
            show(&client.schedule(&name)?.set_paused(false).await?, None)
        }
        ScheduleCommand::Rm { name, seen } => {
            let deleting = client.schedule(&name)?.delete_if(condition(&seen)).await;
            let deleted = deleting.map_err(|error| changed_meanwhile(error, &name))?;
            Ok(CommandOutput::answer(&deleted)?)
        }
    }
}

async fn set(client: &Client, arguments: SetArguments) -> ScheduleOutput {
    let schedule = client.schedule(&arguments.name)?;
    let mut job = with_content(&arguments.queue, arguments.content)?;
    if let Some(delay) = arguments.delay {
        job = job.delay(duration(delay));
    }
    let config = Schedule {
        cron: arguments.cron,
        time_zone: arguments.time_zone,
        every: arguments.every,
        overlap: arguments.overlap,
        catch_up: arguments.catch_up,
        catch_up_window: arguments.catch_up_window,
        starts_at: arguments.starts_at,
        ends_at: arguments.ends_at,
        paused: arguments.paused,
        ..job.into_schedule()?
    };
    let condition = match arguments.new {
        true => Precondition::Missing,
        false => condition(&arguments.seen),
    };
    let setting = schedule.set_if(condition, &config).await;
    let details = setting.map_err(|error| match error.code() {
        Some(ProblemCode::VersionMismatch) if arguments.new => {
            let name = schedule.name();
            CommandFailure::NotDone(format!(
                "there is a schedule {name}; leave out --new to replace it, or choose another name"
            ))
        }
        _ => changed_meanwhile(error, schedule.name()),
    })?;
    show(&details, None)
}

fn condition(seen: &SeenArguments) -> Precondition<&str> {
    let revision = seen.revision.as_deref();
    revision.map_or(Precondition::None, Precondition::Is)
}

fn changed_meanwhile(error: Error, name: &str) -> CommandFailure {
    match error.code() {
        Some(ProblemCode::VersionMismatch) => CommandFailure::NotDone(format!(
            "the schedule does not have this revision; look at it again: tidegate schedule show {name}"
        )),
        _ => error.into(),
    }
}

fn list(schedules: &[ScheduleDetails]) -> ScheduleOutput {
    let rows = schedules.iter().map(|it| {
        json!({
            "name": it.name,
            "queue": it.config.queue,
            "times": times(&it.config),
            "next_run": next_run(it),
        })
    });
    Ok(CommandOutput::shown(&schedules, rows.collect())?)
}

/// A schedule as the API shows it, with its next runs if they were requested.
#[derive(Serialize)]
struct ScheduleAnswer<'a> {
    #[serde(flatten)]
    details: &'a ScheduleDetails,
    #[serde(skip_serializing_if = "Option::is_none")]
    runs: Option<&'a [Timestamp]>,
}

fn show(details: &ScheduleDetails, runs: Option<&[Timestamp]>) -> ScheduleOutput {
    let shown = readable(details, runs.unwrap_or_default())?;
    Ok(CommandOutput::shown(
        &ScheduleAnswer { details, runs },
        shown,
    )?)
}

/// A schedule as people read it.
fn readable(details: &ScheduleDetails, runs: &[Timestamp]) -> Result<Value, CommandFailure> {
    let config = &details.config;
    let mut without_payload = config.job.clone();
    let payload = without_payload.content.payload.take();
    let mut job = serde_json::to_value(&without_payload).map_err(Error::Encode)?;
    job["payload"] = payload.as_ref().map(JsonText::as_str).into();
    let runs = runs.iter().enumerate().map(|(index, at)| {
        // Fields are in the order of their names.
        let number = format!(
            "{:0width$}",
            index + 1,
            width = runs.len().to_string().len()
        );
        (number, json!(at))
    });
    Ok(json!({
        "name": details.name,
        "queue": config.queue,
        "revision": details.revision,
        "times": times(config),
        "next_run": next_run(details),
        "starts_at": config.starts_at,
        "ends_at": config.ends_at,
        "overlap": config.overlap,
        "catch_up": config.catch_up,
        "catch_up_window": config.catch_up_window,
        "job": job,
        "runs": runs.collect::<Map<_, _>>(),
    }))
}

/// When it runs, in one text.
fn times(config: &Schedule) -> String {
    match (&config.cron, config.every) {
        (Some(pattern), _) => {
            let time_zone = config.time_zone.as_deref().unwrap_or("UTC");
            format!("{pattern} {time_zone}")
        }
        (None, Some(every)) => format!("every {every}"),
        (None, None) => String::new(),
    }
}

fn next_run(details: &ScheduleDetails) -> Value {
    match details.next_run {
        Some(at) => json!(at),
        None if details.config.paused => "paused".into(),
        None => "ended".into(),
    }
}

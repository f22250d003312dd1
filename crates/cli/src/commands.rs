//! Executes commands: each is one call of the client.

mod new_job;
mod schedules;

use serde_json::json;
use tidegate::api::FieldChange;
use tidegate::api::keys::CreateKeyBody;
use tidegate::{
    Client, GroupPolicyChange, IfRunning, JobChange, JobFilter, JobHandle, JobResult, JobState,
    PolicyChange, ProblemCode, PurgeState, QueueHandle, Respawn,
};

use crate::arguments::ApiCommand;
use crate::arguments::job::{DeadCommand, JobArguments, JobCommand};
use crate::arguments::key::KeyCommand;
use crate::arguments::queue::QueueCommand;
use crate::arguments::rate::LimitCommand;
use crate::failure::CommandFailure;
use crate::many_jobs;
use crate::output::CommandOutput;
use new_job::{duration, new_job};

type Executed = Result<CommandOutput, CommandFailure>;

pub(crate) async fn execute(client: &Client, command: ApiCommand) -> Executed {
    match command {
        ApiCommand::Publish(job) => {
            let queue = job.queue.clone();
            let published = new_job(client, job)?.await;
            let published = published.map_err(|error| CommandFailure::publish(error, &queue))?;
            let mut answer = json!({
                "id": published.id, "queue": published.queue(), "key": published.key,
                "outcome": published.outcome, "state": published.state, "run_at": published.run_at,
                "durability": published.durability,
            });
            if let Some(fields) = answer.as_object_mut() {
                // As in the answer of the API.
                fields.retain(|_, value| !value.is_null());
            }
            Ok(CommandOutput::Answer(answer))
        }
        ApiCommand::Call { job, wait } => {
            let queue = job.queue.clone();
            let result = new_job(client, job)?.call_raw(duration(wait)).await;
            let result = result.map_err(|error| CommandFailure::call(error, &queue))?;
            Ok(result_bytes(&result))
        }
        ApiCommand::Job(command) => execute_on_job(client, command).await,
        ApiCommand::Queue(command) => execute_on_queue(client, command).await,
        ApiCommand::Limit(command) => execute_on_limits(client, command).await,
        ApiCommand::Dead(DeadCommand::Ls {
            queue,
            error,
            limit,
        }) => {
            let filter = JobFilter {
                state: Some(JobState::Dead),
                error_contains: error,
                ..JobFilter::default()
            };
            many_jobs::list(client, &queue, filter, limit).await
        }
        ApiCommand::Dead(DeadCommand::Respawn { queue, limit, rate }) => {
            let which = Respawn {
                limit,
                rate_per_second: rate,
            };
            let respawned = client.queue(&queue)?.respawn(which).await?;
            Ok(CommandOutput::Answer(json!({"respawned": respawned})))
        }
        ApiCommand::Schedule(command) => schedules::execute(client, command).await,
        ApiCommand::Key(command) => execute_on_keys(client, command).await,
        ApiCommand::Dead(DeadCommand::Rm { queue }) => {
            purge(&client.queue(&queue)?, PurgeState::Dead).await
        }
    }
}

async fn execute_on_job(client: &Client, command: JobCommand) -> Executed {
    let answer = match command {
        JobCommand::Ls {
            queue,
            filter,
            limit,
        } => return many_jobs::list(client, &queue, filter.into(), limit).await,
        JobCommand::Act(arguments) => return many_jobs::act(client, arguments).await,
        JobCommand::Explain(job) => {
            return many_jobs::explanation(&handle(client, &job)?.explain().await?);
        }
        JobCommand::Show(job) => CommandOutput::answer(&handle(client, &job)?.show().await?),
        JobCommand::Payload(job) => {
            let (payload, _) = handle(client, &job)?.payload().await?;
            Ok(CommandOutput::Bytes(payload.into()))
        }
        JobCommand::Result { job, wait } => {
            let result = handle(client, &job)?.result(duration(wait)).await?;
            let result = result.ok_or_else(|| {
                CommandFailure::NotDone("the job is not done; wait longer with --wait".to_owned())
            })?;
            Ok(result_bytes(&result))
        }
        JobCommand::Change {
            job,
            delay,
            run_at,
            priority,
        } => {
            let change = JobChange {
                delay,
                run_at,
                priority,
                ..JobChange::default()
            };
            CommandOutput::answer(&handle(client, &job)?.change(&change).await?)
        }
        JobCommand::Promote(job) => CommandOutput::answer(&handle(client, &job)?.promote().await?),
        JobCommand::Cancel { job, running } => {
            return cancel(&handle(client, &job)?, running).await;
        }
    };
    Ok(answer?)
}

async fn cancel(job: &JobHandle, running: IfRunning) -> Executed {
    match job.cancel_outcome(running).await {
        Ok(answer) => Ok(CommandOutput::answer(&answer)?),
        Err(error) => Err(match error.code() {
            Some(ProblemCode::JobRunning) => {
                let text =
                    "a worker holds the job; cancel it with --running ask or --running revoke";
                CommandFailure::NotDone(text.to_owned())
            }
            Some(ProblemCode::JobNotFound) => {
                let text = "there is no such job; check the queue, and the id or key:KEY";
                CommandFailure::NotDone(text.to_owned())
            }
            _ => error.into(),
        }),
    }
}

async fn execute_on_queue(client: &Client, command: QueueCommand) -> Executed {
    let answer = match command {
        QueueCommand::Ls => CommandOutput::answer(&client.queues().await?),
        QueueCommand::Show { queue } => {
            CommandOutput::answer(&client.queue(&queue)?.stats().await?)
        }
        QueueCommand::Policy { queue } => {
            CommandOutput::answer(&client.queue(&queue)?.policy().await?)
        }
        QueueCommand::Purge { queue } => {
            return purge(&client.queue(&queue)?, PurgeState::Ready).await;
        }
        QueueCommand::Pause { queue } => return change_policy(client, &queue, pausing(true)).await,
        QueueCommand::Resume { queue } => {
            return change_policy(client, &queue, pausing(false)).await;
        }
        QueueCommand::Close { queue } => return change_policy(client, &queue, closing(true)).await,
        QueueCommand::Open { queue } => return change_policy(client, &queue, closing(false)).await,
        QueueCommand::MaxRunning {
            queue,
            jobs,
            per_group,
        } => return change_policy(client, &queue, limiting(jobs, per_group)).await,
        QueueCommand::Rate { queue, rate } => {
            let change = PolicyChange {
                rate,
                ..PolicyChange::default()
            };
            return change_policy(client, &queue, change).await;
        }
        QueueCommand::Limit { queue, limit } => {
            let change = PolicyChange {
                limit,
                ..PolicyChange::default()
            };
            return change_policy(client, &queue, change).await;
        }
    };
    Ok(answer?)
}

async fn execute_on_limits(client: &Client, command: LimitCommand) -> Executed {
    let answer = match command {
        LimitCommand::Ls => CommandOutput::answer(&client.limits().await?),
        LimitCommand::Show { name } => CommandOutput::answer(&client.limit(&name)?.show().await?),
        LimitCommand::Set { name, rate } => {
            CommandOutput::answer(&client.limit(&name)?.set(rate).await?)
        }
        LimitCommand::Rm { name } => CommandOutput::answer(&client.limit(&name)?.delete().await?),
    };
    Ok(answer?)
}

fn limiting(max_running: FieldChange<u64>, per_group: bool) -> PolicyChange {
    match per_group {
        true => PolicyChange {
            groups: FieldChange::Set(GroupPolicyChange { max_running }),
            ..PolicyChange::default()
        },
        false => PolicyChange {
            max_running,
            ..PolicyChange::default()
        },
    }
}

fn pausing(paused: bool) -> PolicyChange {
    PolicyChange {
        paused: paused.into(),
        ..PolicyChange::default()
    }
}

fn closing(closed: bool) -> PolicyChange {
    PolicyChange {
        closed: closed.into(),
        ..PolicyChange::default()
    }
}

async fn change_policy(client: &Client, queue: &str, change: PolicyChange) -> Executed {
    let policy = client.queue(queue)?.set_policy(&change).await?;
    Ok(CommandOutput::answer(&policy)?)
}

async fn execute_on_keys(client: &Client, command: KeyCommand) -> Executed {
    let answer = match command {
        KeyCommand::New {
            description,
            scopes,
            expires_at,
        } => {
            let key = CreateKeyBody {
                scopes,
                description,
                namespace: None,
                pool: None,
                expires_at,
                secret: None,
            };
            let created = client.create_key(&key).await?;
            let id = &created.key.id;
            CommandOutput::answer(&created).map(|output| {
                output.once(format!(
                    "revoke the key, whose secret is lost: tidegate key revoke {id}"
                ))
            })
        }
        KeyCommand::Ls => CommandOutput::answer(&client.keys().await?),
        KeyCommand::Revoke { id } => CommandOutput::answer(&client.revoke_key(&id).await?),
    };
    Ok(answer?)
}

async fn purge(queue: &QueueHandle, state: PurgeState) -> Executed {
    let deleted = queue.purge(state).await?;
    Ok(CommandOutput::Answer(json!({"deleted": deleted})))
}

fn handle(client: &Client, job: &JobArguments) -> Result<JobHandle, CommandFailure> {
    let queue = client.queue(&job.queue)?;
    Ok(match job.job.strip_prefix("key:") {
        Some(key) => queue.job_with_key(key)?,
        None => queue.job(&job.job)?,
    })
}

fn result_bytes(result: &JobResult) -> CommandOutput {
    CommandOutput::Bytes(result.bytes.to_vec())
}

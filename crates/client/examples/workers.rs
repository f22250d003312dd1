//! The handlers of docs/workers.md, in one worker.
#![allow(clippy::print_stdout, reason = "a program for a terminal")]

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidegate::{CallError, CancelReason, Client, Data, Fail, Job, JobReply, Task, Worker};
use tower::timeout::TimeoutLayer;

#[derive(Serialize, Deserialize)]
struct SendMail {
    to: String,
}

impl Task for SendMail {
    const QUEUE: &'static str = "mails";
    type Reply = ();
}

struct Mailer;

#[derive(Debug, thiserror::Error)]
enum MailError {
    #[error("no such mailbox")]
    NoSuchMailbox,
    #[error("too many mails; try again in {0:?}")]
    TooMany(Duration),
    #[error("the connection broke")]
    Broken,
}

impl Mailer {
    async fn send(&self, to: &str) -> Result<(), MailError> {
        match to {
            "nobody" => Err(MailError::NoSuchMailbox),
            "many" => Err(MailError::TooMany(Duration::from_secs(60))),
            "broken" => Err(MailError::Broken),
            _ => Ok(()),
        }
    }
}

async fn send_mail(mail: SendMail, mailer: Data<Mailer>) -> Result<(), Fail> {
    match mailer.send(&mail.to).await {
        Ok(()) => Ok(()),
        Err(error @ MailError::NoSuchMailbox) => Err(Fail::dead(error)),
        Err(MailError::TooMany(pause)) => Err(Fail::snooze(pause)),
        Err(error) => Err(Fail::retry(error)),
    }
}

#[derive(Serialize, Deserialize)]
struct Report {
    pages: u32,
}

impl Task for Report {
    const QUEUE: &'static str = "reports";
    type Reply = String;
}

async fn report(task: Report, job: Job) -> Result<String, Fail> {
    for page in 0..task.pages {
        if job.cancelled().is_cancelled() {
            let is_lost = job.cancel_reason() == Some(CancelReason::LeaseLost);
            return Err(Fail::retry(if is_lost {
                "lease lost"
            } else {
                "cancelled"
            }));
        }
        write_page(page).await?;
    }
    Ok(format!("{} pages", task.pages))
}

async fn write_page(_page: u32) -> std::io::Result<()> {
    tokio::task::yield_now().await;
    Ok(())
}

async fn thumbnail(job: Job) -> Result<JobReply, Fail> {
    let image = job.payload().to_vec();
    let small = tokio::task::spawn_blocking(move || shrink(&image)).await?;
    JobReply::bytes(small, job.content_type())
}

fn shrink(image: &[u8]) -> Vec<u8> {
    image.iter().step_by(2).copied().collect()
}

async fn ask_for_a_report(client: &Client) -> Result<Option<String>, tidegate::BoxError> {
    let call = client
        .publish(Report { pages: 3 })
        .call(Duration::from_secs(20));
    match call.await {
        Ok(report) => Ok(Some(report)),
        Err(CallError::TimedOut { job }) => {
            job.cancel().await?;
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

#[tokio::main]
async fn main() -> Result<(), tidegate::BoxError> {
    let client = Client::builder(std::env::var("TG_URL")?)
        .key(std::env::var("TG_KEY")?)
        .namespace("shop")
        .build()?;
    if std::env::args().any(|argument| argument == "ask") {
        println!("{:?}", ask_for_a_report(&client).await?);
        return Ok(());
    }
    Worker::new(client)
        .handle(send_mail)
        .handle(report)
        .handle_raw("thumbnails", thumbnail)
        .data(Mailer)
        .concurrency(64)
        .lease(Duration::from_secs(60))
        .layer(TimeoutLayer::new(Duration::from_secs(600)))
        .run_until(async { drop(tokio::signal::ctrl_c().await) })
        .grace(Duration::from_secs(25))
        .await?;
    Ok(())
}

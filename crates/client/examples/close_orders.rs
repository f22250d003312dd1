//! The example of the README: orders that are not paid are closed after half an hour.
#![allow(clippy::print_stdout, reason = "a program for a terminal")]

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidegate::{Client, Data, Fail, IfExists, Job, Task, Worker};

#[derive(Serialize, Deserialize)]
struct CloseOrder {
    order: u64,
}

impl Task for CloseOrder {
    const QUEUE: &'static str = "close-unpaid";
    type Reply = ();
}

struct Orders; // your database

impl Orders {
    async fn close(&self, _order: u64) -> Result<(), std::io::Error> {
        Ok(())
    }
}

async fn close(task: CloseOrder, job: Job, orders: Data<Orders>) -> Result<(), Fail> {
    if job.failures() > 5 {
        return Err(Fail::dead("the database was down for too long"));
    }
    // An error is retried, by the retry policy of the queue.
    Ok(orders.close(task.order).await?)
}

#[tokio::main]
async fn main() -> Result<(), tidegate::BoxError> {
    let client = Client::builder(std::env::var("TG_URL")?)
        .key(std::env::var("TG_KEY")?)
        .namespace("shop")
        .build()?;

    // When an order is placed:
    let job = client
        .publish(CloseOrder { order: 17 })
        .delay(Duration::from_secs(30 * 60))
        .key("order-17")
        .if_exists(IfExists::Replace)
        .await?;
    println!("job {} is due at {:?}", job.id, job.run_at);

    // When it is paid:
    client
        .queue(CloseOrder::QUEUE)?
        .job_with_key("order-17")?
        .cancel()
        .await?;

    // Elsewhere, the worker, here for a second only:
    Worker::new(client)
        .handle(close)
        .data(Orders)
        .concurrency(64)
        .run_until(tokio::time::sleep(Duration::from_secs(1)))
        .grace(Duration::from_secs(25))
        .await?;
    Ok(())
}

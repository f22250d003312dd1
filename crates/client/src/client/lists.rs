//! Lists of what a namespace has.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use tidegate_api_types::queue::{QueueListPage, QueueView};

use super::Client;
use crate::error::{Error, RepeatSafety};
use crate::transport::HttpCall;

impl Client {
    /// All queues of the namespace with their numbers of jobs, in the order of their names. Takes one request per page.
    /// Needs the scope `read`.
    ///
    /// # Errors
    /// Those of requests.
    pub async fn queues(&self) -> Result<Vec<QueueView>, Error> {
        let mut queues = Vec::new();
        let mut path = "/queues".to_owned();
        loop {
            let call = HttpCall::get(path);
            let sending = self
                .transport
                .send_repeated(&call, RepeatSafety::Repeatable);
            let page: QueueListPage = sending.await?.json()?;
            queues.extend(page.items);
            let Some(next) = page.next else {
                return Ok(queues);
            };
            let cursor = utf8_percent_encode(next.as_str(), NON_ALPHANUMERIC);
            path = format!("/queues?cursor={cursor}");
        }
    }
}

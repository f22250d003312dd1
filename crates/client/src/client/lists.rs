//! The lists of a namespace.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::de::DeserializeOwned;
use tidegate_core::v1::Page;
use tidegate_core::v1::keys::KeyView;
use tidegate_core::v1::queue::{LimitDetails, QueueView};
use tidegate_core::v1::schedule::ScheduleDetails;

use super::Client;
use crate::cursors::CursorGuard;
use crate::error::{Error, RepeatSafety};
use crate::transport::HttpCall;

impl Client {
    /// All queues of the namespace with their numbers of jobs, in the order of their names. Takes one request per page.
    /// Needs the scope `read`.
    ///
    /// # Errors
    /// The errors of requests.
    pub async fn queues(&self) -> Result<Vec<QueueView>, Error> {
        let mut queues: Vec<QueueView> = self.all_of("/queues").await?;
        queues.sort_by(|one, other| one.queue.as_str().cmp(other.queue.as_str()));
        // A queue may be on two pages.
        queues.dedup_by(|one, other| one.queue == other.queue);
        Ok(queues)
    }

    /// All API keys of the namespace, without their secrets. Takes one request per page. Needs the scope `admin`.
    ///
    /// # Errors
    /// The errors of requests.
    pub async fn keys(&self) -> Result<Vec<KeyView>, Error> {
        self.all_of("/keys").await
    }

    /// All limits of the namespace, in the order of their names. One that cannot be read is left out.
    ///
    /// # Errors
    /// The errors of requests.
    pub async fn limits(&self) -> Result<Vec<LimitDetails>, Error> {
        self.all_of("/limits").await
    }

    /// All schedules of the namespace with their next runs, in the order of their names. One that cannot be read is
    /// left out. Takes one request per page. Needs the scope `read`.
    ///
    /// # Errors
    /// The errors of requests.
    pub async fn schedules(&self) -> Result<Vec<ScheduleDetails>, Error> {
        self.all_of("/schedules").await
    }

    /// The items of all pages of a list.
    async fn all_of<T: DeserializeOwned>(&self, list: &str) -> Result<Vec<T>, Error> {
        let mut items = Vec::new();
        let mut path = list.to_owned();
        let mut cursors = CursorGuard::default();
        loop {
            let call = HttpCall::get(path);
            let sending = self
                .transport
                .send_repeated(&call, RepeatSafety::Repeatable);
            let page: Page<T> = sending.await?.json()?;
            items.extend(page.items);
            let Some(next) = page.next else {
                return Ok(items);
            };
            cursors.check(&next)?;
            let cursor = utf8_percent_encode(next.as_str(), NON_ALPHANUMERIC);
            path = format!("{list}?cursor={cursor}");
        }
    }
}

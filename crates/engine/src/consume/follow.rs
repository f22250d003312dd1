//! The work behind the scenes that consumers need.

use tokio_util::sync::CancellationToken;

use crate::access::revocation::end_revoked_waits;
use crate::engine::Engine;

impl Engine {
    /// Rings the wait queues when they may have jobs, keeps lanes, policies and limits of namespaces current, stores which workers there are,
    /// and ends the waits of consumers whose credential was revoked or has expired, until `stop` is cancelled.
    pub async fn follow(&self, stop: CancellationToken) {
        let pool_of = |pool: &str| self.pool(pool).cloned();
        let following = stop
            .clone()
            .run_until_cancelled_owned(self.workers.follow(pool_of));
        let limiting = stop
            .clone()
            .run_until_cancelled_owned(self.namespaces.follow());
        tokio::join!(
            limiting,
            self.waiters.wake(stop.clone()),
            end_revoked_waits(self, stop),
            following
        );
    }
}

//! The processes of `dev`.

use tidegate_local_broker::LocalBroker;
use tidegate_local_deployment::{DevSession, StopRequests};

/// The processes that `dev` has started.
#[derive(Debug, Default)]
pub(super) struct DevRun {
    pub(super) session: DevSession,
    /// The broker that jobs are relayed to, and the admin port of the relay.
    pub(super) broker: Option<(LocalBroker, u16)>,
}

impl DevRun {
    /// Stops everything: the daemons first, which need the broker and Redis to finish.
    pub(super) fn stop(&mut self, signals: &StopRequests) {
        if self.session.is_empty() {
            return;
        }
        self.session.stop_daemons(signals);
        if let Some((mut broker, _)) = self.broker.take() {
            broker.stop();
            println!("  the broker is stopped; its data are deleted");
        }
        self.session.stop_redis();
    }
}

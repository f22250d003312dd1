//! The server under test. The one place that knows how there comes to be one.

use std::net::SocketAddr;

use tidegate_testkit::{Lent, SharedStack, Stack};

static STACK: SharedStack = SharedStack::new(Stack::builder);

/// A server that takes requests.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) public: SocketAddr,
    pub(crate) admin: SocketAddr,
    /// Keeps the server running.
    stack: Lent,
}

impl Target {
    /// A server that other tests use too.
    pub(crate) async fn get() -> Self {
        Self::on(STACK.lend().await)
    }

    /// A server that nobody else uses.
    pub(crate) async fn alone() -> Self {
        Self::on(SharedStack::new(Stack::builder).lend().await)
    }

    fn on(stack: Lent) -> Self {
        Self {
            public: stack.api(0).listen(),
            admin: stack.api(0).admin(),
            stack,
        }
    }

    /// Waits until so many consumers wait at this server.
    pub(crate) async fn until_waiting(&self, consumers: usize) {
        self.stack.api(0).until_waiting(consumers).await;
    }

    /// Checks behind the scenes, where that is possible, that no job is lost or counted wrongly.
    pub(crate) async fn check(&self) {
        self.stack.check_conservation().await;
    }
}

//! The deployment and the namespace of a scenario.

use std::net::SocketAddr;
use std::sync::Arc;

use tidegate_testkit::{FaultProxy, NativeClient, Stack, seed};

use crate::driver::Driver;
use crate::language::DriverProgram;

/// What a scenario will run with.
pub(crate) struct Ground {
    stack: Arc<Stack>,
    program: Arc<DriverProgram>,
    namespace: String,
}

impl Ground {
    pub(crate) fn new(stack: Arc<Stack>, program: Arc<DriverProgram>, scenario: &str) -> Self {
        Self {
            stack,
            program,
            namespace: scenario.replace('_', "-"),
        }
    }

    /// Makes an API key for the namespace.
    pub(crate) async fn open(self) -> OpenGround {
        let client = NativeClient::new(self.stack.api(0), &self.namespace).await;
        OpenGround {
            ground: self,
            client,
        }
    }
}

/// A namespace of its own in a deployment with two APIs, and the program of a client.
pub(crate) struct OpenGround {
    ground: Ground,
    /// Sees what the client has done.
    pub(crate) client: NativeClient,
}

impl OpenGround {
    pub(crate) fn stack(&self) -> &Stack {
        &self.ground.stack
    }

    pub(crate) fn namespace(&self) -> &str {
        &self.ground.namespace
    }

    /// Starts the program with the first API.
    pub(crate) async fn driver(&self) -> Driver {
        self.driver_at(self.stack().api(0).listen()).await
    }

    /// Starts the program with this server.
    pub(crate) async fn driver_at(&self, server: SocketAddr) -> Driver {
        self.driver_with_key(server, self.client.key()).await
    }

    /// Starts the program with this server and API key.
    pub(crate) async fn driver_with_key(&self, server: SocketAddr, key: &str) -> Driver {
        let namespace = self.namespace();
        Driver::start(&self.ground.program, server, key, namespace).await
    }

    /// A network between the program and the first API.
    pub(crate) async fn proxy(&self) -> FaultProxy {
        FaultProxy::start(self.stack().api(0).listen(), seed()).await
    }
}

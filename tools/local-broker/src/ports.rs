//! The ports of a broker.

use std::io;

use tidegate_local_program::free_port;

/// Ports on 127.0.0.1 that were free. They stay the same over restarts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BrokerPorts {
    pub(crate) clients: u16,
    /// For clients that use TLS. NATS has one port for both.
    pub(crate) tls: u16,
    /// For other nodes: nodes of Erlang, or the controllers of Kafka.
    pub(crate) nodes: u16,
    /// Erlang's port mapper.
    pub(crate) mapper: u16,
}

impl BrokerPorts {
    pub(crate) fn free() -> io::Result<Self> {
        let port = || free_port().ok_or(io::Error::from(io::ErrorKind::AddrNotAvailable));
        Ok(Self {
            clients: port()?,
            tls: port()?,
            nodes: port()?,
            mapper: port()?,
        })
    }
}

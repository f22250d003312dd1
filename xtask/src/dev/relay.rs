//! `--relay`: a broker, and the settings of a relay from a queue to it.

use std::fs;
use std::path::Path;

use tidegate_local_broker::{BrokerKind, LocalBroker, obtain, workspace_cache};
use tidegate_local_deployment::credentials::{KEY, NAMESPACE};
use tidegate_local_deployment::{CommandError, StopRequests};

use super::options::RelayBroker;

/// The queue whose jobs are relayed, and where they go in the broker.
const QUEUE: &str = "relayed";

/// Starts a broker with a queue.
pub(super) fn start_broker(
    broker: RelayBroker,
    signals: &StopRequests,
) -> Result<LocalBroker, CommandError> {
    let program = obtain(broker.kind(), &workspace_cache(), &mut |line| {
        println!("{line}")
    });
    let program = program.map_err(|error| error.to_string())?;
    signals.check_not_requested()?;
    println!("starting {program}");
    let started = LocalBroker::start_with_queue(program, None, Some(QUEUE));
    Ok(started.map_err(|error| error.to_string())?)
}

/// Writes the settings of the relay daemon.
pub(super) fn write_settings(
    file: &Path,
    broker: &LocalBroker,
    api_port: u16,
) -> Result<(), String> {
    let url = broker.url();
    let sink = match broker.kind() {
        BrokerKind::Nats => format!("kind = \"nats\"\nurl = \"{url}\"\nsubject = \"{QUEUE}\""),
        BrokerKind::RabbitMq => {
            format!("kind = \"rabbitmq\"\nurl = \"{url}\"\nrouting_key = \"{QUEUE}\"")
        }
        BrokerKind::Kafka => format!("kind = \"kafka\"\nurl = \"{url}\"\ntopic = \"{QUEUE}\""),
    };
    let settings = format!(
        "[relay.{QUEUE}.source]\nkind = \"tidegate\"\nurl = \"http://127.0.0.1:{api_port}\"\nnamespace = \"{NAMESPACE}\"\n\
         queue = \"{QUEUE}\"\napi_key = \"{KEY}\"\n\n[relay.{QUEUE}.sink]\n{sink}\n"
    );
    fs::write(file, settings).map_err(|error| format!("{}: {error}", file.display()))
}

/// The commands that show the relay.
pub(super) fn session(broker: &LocalBroker, admin_port: u16, api_port: u16) -> String {
    format!(
        "The relay passes jobs of the queue {QUEUE} on to {}. These commands publish a job for it, and show that the broker\n\
         has confirmed it:\n\n\
         curl -s -H 'Authorization: Bearer {KEY}' -d 'hello' 'http://127.0.0.1:{api_port}/v1/{NAMESPACE}/queues/{QUEUE}/jobs?delay=2s'; echo\n\
         sleep 3; curl -s http://127.0.0.1:{admin_port}/relays; echo\n\n",
        broker.url()
    )
}

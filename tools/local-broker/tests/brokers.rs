//! Real brokers: start, stop, kill, restart.

use std::net::TcpStream;

use tidegate_local_broker::{BrokerKind, LocalBroker, LocalBrokerError, obtain, workspace_cache};

fn check(kind: BrokerKind) -> Result<(), LocalBrokerError> {
    let program = obtain(kind, &workspace_cache(), &mut |_| {})?;
    let mut broker = LocalBroker::start_with_queue(program, None, Some("orders"))?;
    let address = broker.address();
    assert!(TcpStream::connect(address).is_ok());
    assert!(broker.stop(), "the broker ends after SIGTERM");
    assert!(TcpStream::connect(address).is_err());
    broker.restart()?;
    broker.kill();
    assert!(TcpStream::connect(address).is_err());
    assert!(broker.pause().is_err());
    broker.restart()?;
    assert_eq!(broker.address(), address);
    assert!(TcpStream::connect(address).is_ok());
    Ok(())
}

#[test]
fn nats_starts_stops_and_starts_again() {
    check(BrokerKind::Nats).unwrap();
}

#[test]
fn rabbitmq_starts_stops_and_starts_again() {
    check(BrokerKind::RabbitMq).unwrap();
}

#[test]
fn kafka_starts_stops_and_starts_again() {
    check(BrokerKind::Kafka).unwrap();
}

//! Brokers with TLS, whose certificates are signed by an authority that this system does not trust.

use std::path::{Path, PathBuf};

use async_nats::ConnectOptions;
use async_nats::jetstream::{self, stream};
use lapin::options::QueueDeclareOptions;
use lapin::types::FieldTable;
use lapin::{Connection, ConnectionProperties};
use tempfile::TempDir;
use tidegate_local_broker::{BrokerCertificate, BrokerKind, LocalBroker};
use tidegate_testkit::CertificateAuthority;
use tidegate_testkit::certificates::write_text;

use crate::fixture::{LIMIT, QUEUE, RelayDaemon, RelayedQueue, SERVER, SHORT, start_broker_with};

const JOBS: usize = 20;

/// A broker with TLS, and the file of the authority that signed its certificate.
struct TlsBroker {
    broker: LocalBroker,
    authority: PathBuf,
    _folder: TempDir,
}

impl TlsBroker {
    async fn start(kind: BrokerKind) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let authority = CertificateAuthority::new();
        let signed = authority.certificate("127.0.0.1");
        let file = |name: &str, text: &str| write_text(folder.path(), name, text);
        let certificate = BrokerCertificate {
            certificate: file("broker.pem", &signed.certificate),
            key: file("broker.key", &signed.key),
        };
        let start = |program| LocalBroker::start_with_tls(program, certificate);
        Self {
            broker: start_broker_with(kind, start).await,
            authority: file("authority.pem", authority.pem()),
            _folder: folder,
        }
    }

    /// Jobs wait for a relay that does not trust the authority, with no failure counted, and are delivered by one that
    /// does.
    async fn expect_deliveries(&self, namespace: &str, sink: &str) {
        let stack = SERVER.acquire().await;
        let queue = RelayedQueue::new(&stack, namespace).await;
        let url = self.broker.tls_url();
        let sink = format!("[relay.r.sink]\nurl = \"{url}\"\ntime_limit = \"2s\"\n{sink}\n");
        let settings = [SHORT, &queue.as_end("source", QUEUE), &sink];
        let ids = queue.publish(0..JOBS).await;
        let refusing = RelayDaemon::start(&settings).await;
        refusing
            .status_has("the certificate is refused", |status| {
                let error = status["last_error"]["text"].as_str().unwrap_or_default();
                status["breaker"] == "open" && error.to_lowercase().contains("certificate")
            })
            .await;
        assert_eq!(refusing.status().await["confirmed"], 0);
        refusing.daemon.stop(LIMIT).await;
        for id in &ids {
            assert_eq!(queue.job(id).await["failures"].as_u64().unwrap_or(0), 0);
        }
        let trusted = self.authority.display().to_string();
        let environment = [("SSL_CERT_FILE", trusted.as_str())];
        let relay = RelayDaemon::start_with(&settings, &environment).await;
        queue.drained().await;
        assert_eq!(relay.status().await["confirmed"], JOBS);
    }
}

async fn make_stream(broker: &LocalBroker, authority: &Path) {
    let options = ConnectOptions::new().add_root_certificates(authority.to_owned());
    let client = options.connect(broker.tls_url()).await.unwrap();
    let config = stream::Config {
        name: "ORDERS".to_owned(),
        subjects: vec!["orders".to_owned()],
        ..stream::Config::default()
    };
    let context = jetstream::new(client);
    context.create_stream(config).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn nats_is_trusted_by_the_authorities_of_the_environment() {
    let nats = TlsBroker::start(BrokerKind::Nats).await;
    make_stream(&nats.broker, &nats.authority).await;
    let sink = "kind = \"nats\"\nsubject = \"orders\"";
    nats.expect_deliveries("tls-nats", sink).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rabbitmq_is_trusted_by_the_authorities_of_the_environment() {
    let rabbitmq = TlsBroker::start(BrokerKind::RabbitMq).await;
    let properties = ConnectionProperties::default();
    let connection = Connection::connect(&rabbitmq.broker.url(), properties).await;
    let channel = connection.unwrap().create_channel().await.unwrap();
    let (options, arguments) = (QueueDeclareOptions::default(), FieldTable::default());
    let declared = channel.queue_declare("orders".into(), options, arguments);
    declared.await.unwrap();
    let sink = "kind = \"rabbitmq\"\nrouting_key = \"orders\"";
    rabbitmq.expect_deliveries("tls-rabbitmq", sink).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kafka_is_trusted_by_the_authorities_of_the_environment() {
    let kafka = TlsBroker::start(BrokerKind::Kafka).await;
    tokio::task::block_in_place(|| kafka.broker.make_topic("orders", &[]).unwrap());
    let sink = "kind = \"kafka\"\ntopic = \"orders\"\ntls = true";
    kafka.expect_deliveries("tls-kafka", sink).await;
}

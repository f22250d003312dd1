//! A cluster that is reached only over TLS, by the names that its nodes announce.

use std::time::Duration;

use redis::Connection;
use tidegate_testkit::certificates::write_text;
use tidegate_testkit::{
    CertificateAuthority, RedisOptions, RedisServer, consistency, eventually, free_port,
    print_figure, start_redis,
};

use crate::fleet::{Fleet, live_through};
use crate::turn;

const NAME: &str = "localhost";
const LIMIT: Duration = Duration::from_secs(60);
/// The slots of the two nodes.
const SLOTS: [(u16, u16); 2] = [(0, 8191), (8192, 16383)];

/// A node, and its port for TLS.
struct Node {
    server: RedisServer,
    tls_port: u16,
}

impl Node {
    fn plainly(&self) -> Connection {
        let client = redis::Client::open(self.server.url()).unwrap();
        client.get_connection().unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_are_reached_over_tls_by_their_announced_names() {
    let _turn = turn().await;
    if !start_redis().binary().has_tls() {
        print_figure("left out: this redis was built without TLS");
        return;
    }
    // The certificate is valid for the name, and not for the address.
    let (authority, folder) = (CertificateAuthority::new(), tempfile::tempdir().unwrap());
    let own = authority.certificate(NAME);
    let ca_file = write_text(folder.path(), "ca.pem", authority.pem());
    let certificate = write_text(folder.path(), "own.pem", &own.certificate);
    let key = write_text(folder.path(), "own.key", &own.key);
    let start = || {
        let tls_port = free_port().unwrap();
        let options = RedisOptions::new()
            .setting("cluster-enabled", "yes")
            .setting("cluster-announce-hostname", NAME)
            .setting("cluster-preferred-endpoint-type", "hostname")
            .setting("tls-cluster", "yes")
            .setting("tls-port", &tls_port.to_string())
            .setting("tls-cert-file", certificate.to_str().unwrap())
            .setting("tls-key-file", key.to_str().unwrap())
            .setting("tls-ca-cert-file", ca_file.to_str().unwrap())
            .setting("tls-auth-clients", "no");
        Node {
            server: options.start(),
            tls_port,
        }
    };
    let nodes = [start(), start()];
    introduce(&nodes).await;
    let pool = format!(
        "cluster = \"rediss://{NAME}:{}\"\ntls_ca_file = {ca_file:?}\n",
        nodes[0].tls_port
    );
    let fleet = Fleet::start(2, 1, &pool).await;
    for _ in 0..4 {
        live_through(&fleet).await;
    }
    let logs = fleet.logs();
    assert!(!logs.contains("WARN"), "{logs}");
    for node in &nodes {
        consistency::check(&node.server.url()).await;
        let mut info = redis::cmd("INFO");
        let info: String = info.arg("commandstats").query(&mut node.plainly()).unwrap();
        assert!(
            info.contains("cmdstat_evalsha"),
            "a node had no work: {info}"
        );
    }
}

async fn introduce(nodes: &[Node; 2]) {
    for (node, (first, last)) in nodes.iter().zip(SLOTS) {
        let mut slots = redis::cmd("CLUSTER");
        slots.arg("ADDSLOTSRANGE").arg(first).arg(last);
        slots.exec(&mut node.plainly()).unwrap();
    }
    let mut meet = redis::cmd("CLUSTER");
    meet.arg("MEET").arg("127.0.0.1").arg(nodes[1].tls_port);
    meet.exec(&mut nodes[0].plainly()).unwrap();
    for node in nodes {
        eventually("the nodes agree", LIMIT, async || {
            let mut info = redis::cmd("CLUSTER");
            let info: String = info.arg("INFO").query(&mut node.plainly()).unwrap();
            let mut slots = redis::cmd("CLUSTER");
            let slots: redis::Value = slots.arg("SLOTS").query(&mut node.plainly()).unwrap();
            let named = format!("{slots:?}").matches(NAME).count();
            match info.contains("cluster_state:ok") && named == 2 {
                true => Ok(()),
                false => Err(format!("{info}{slots:?}")),
            }
        })
        .await;
    }
}

//! A single server, reached over TLS or over a Unix socket.

use std::time::Duration;

use tidegate_testkit::certificates::write_text;
use tidegate_testkit::{
    CertificateAuthority, DaemonProgram, RedisOptions, TlsProxy, consistency, run_with_settings,
    start_redis,
};

use crate::fleet::{Fleet, live_through};

const LIMIT: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_verbs_work_over_a_unix_socket() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("redis.sock");
    let redis = RedisOptions::new()
        .setting("unixsocket", socket.to_str().unwrap())
        .start();
    let pool = format!("url = \"redis+unix://{}\"", socket.display());
    let fleet = Fleet::start(1, 1, &pool).await;
    live_through(&fleet).await;
    consistency::check(&redis.url()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_verbs_work_over_tls_with_a_private_authority() {
    let redis = start_redis();
    let (authority, folder) = (CertificateAuthority::new(), tempfile::tempdir().unwrap());
    let ca_file = write_text(folder.path(), "ca.pem", authority.pem());
    for name in ["localhost", "127.0.0.1"] {
        let shown = authority.certificate(name);
        let proxy = TlsProxy::start(redis.address(), &shown, None).await;
        let port = proxy.address().port();
        let pool = format!("url = \"rediss://{name}:{port}\"\ntls_ca_file = {ca_file:?}");
        let fleet = Fleet::start(1, 1, &pool).await;
        live_through(&fleet).await;
    }
    consistency::check(&redis.url()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_certificate_is_sent_when_requested() {
    let redis = start_redis();
    let (authority, folder) = (CertificateAuthority::new(), tempfile::tempdir().unwrap());
    let file = |name: &str, text: &str| write_text(folder.path(), name, text);
    let ca_file = file("ca.pem", authority.pem());
    let client = authority.certificate("client");
    let certificate = file("client.pem", &client.certificate);
    let key = file("client.key", &client.key);
    let shown = authority.certificate("localhost");
    let proxy = TlsProxy::start(redis.address(), &shown, Some(&authority)).await;
    let without = format!(
        "url = \"rediss://localhost:{}\"\ntls_ca_file = {ca_file:?}\n",
        proxy.address().port()
    );
    let with = format!("{without}tls_certificate_file = {certificate:?}\ntls_key_file = {key:?}\n");
    let fleet = Fleet::start(1, 1, &with).await;
    live_through(&fleet).await;
    let message = given_up(&without).await;
    assert!(message.to_lowercase().contains("certificate"), "{message}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_with_an_invalid_certificate_is_refused() {
    let redis = start_redis();
    let (authority, folder) = (CertificateAuthority::new(), tempfile::tempdir().unwrap());
    let ca_file = write_text(folder.path(), "ca.pem", authority.pem());
    let stranger = CertificateAuthority::new();
    for (shown, why) in [
        (stranger.certificate("localhost"), "UnknownIssuer"),
        (authority.certificate("elsewhere"), "not valid for name"),
        (authority.expired_certificate("localhost"), "expired"),
    ] {
        let proxy = TlsProxy::start(redis.address(), &shown, None).await;
        let port = proxy.address().port();
        let pool =
            format!("url = \"rediss://:open-sesame@localhost:{port}\"\ntls_ca_file = {ca_file:?}");
        let message = given_up(&pool).await;
        assert!(message.contains(why), "{why}: {message}");
        assert!(!message.contains("sesame"), "{message}");
    }
    // The authorities of the system do not include that of the test.
    let proxy = TlsProxy::start(redis.address(), &authority.certificate("localhost"), None).await;
    let pool = format!("url = \"rediss://localhost:{}\"", proxy.address().port());
    let message = given_up(&pool).await;
    assert!(message.contains("UnknownIssuer"), "{message}");
    // No daemon stored anything.
    let client = redis::Client::open(redis.url()).unwrap();
    let keys: u64 = redis::cmd("DBSIZE")
        .query(&mut client.get_connection().unwrap())
        .unwrap();
    assert_eq!(keys, 0);
}

/// The logs of both daemons, which exit with an error.
async fn given_up(pool: &str) -> String {
    let settings = format!("connect_patience = \"1s\"\n[pool.default]\n{pool}");
    let mut message = String::new();
    for program in [DaemonProgram::Api, DaemonProgram::Pumpd] {
        let ended = run_with_settings(program, &settings, &[], LIMIT).await;
        assert_eq!(ended.code, Some(1), "{}", ended.log);
        assert!(!ended.log.contains("panicked"), "{}", ended.log);
        message += &ended.log;
    }
    message
}

//! One server: over TLS, and over a socket of the file system.

use std::time::Duration;

use tidegate_testkit::certificates::written;
use tidegate_testkit::{Authority, Program, RedisOptions, TlsProxy, redis, run_to_end, world};

use crate::fleet::{Fleet, live_through};

const LIMIT: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_socket_of_the_file_system_serves_the_whole_life_of_a_job() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("redis.sock");
    let redis = RedisOptions::new()
        .setting("unixsocket", socket.to_str().unwrap())
        .start();
    let pool = format!("url = \"redis+unix://{}\"", socket.display());
    let fleet = Fleet::start(1, 1, &pool).await;
    live_through(&fleet).await;
    world::check(&redis.url()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_with_an_authority_of_ones_own_serves_the_whole_life_of_a_job() {
    let redis = redis();
    let (authority, folder) = (Authority::new(), tempfile::tempdir().unwrap());
    let ca_file = written(folder.path(), "ca.pem", authority.pem());
    for name in ["localhost", "127.0.0.1"] {
        let shown = authority.certificate(name);
        let proxy = TlsProxy::start(redis.address(), &shown, None).await;
        let port = proxy.address().port();
        let pool = format!("url = \"rediss://{name}:{port}\"\ntls_ca_file = {ca_file:?}");
        let fleet = Fleet::start(1, 1, &pool).await;
        live_through(&fleet).await;
    }
    world::check(&redis.url()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_asks_for_a_certificate_is_shown_it() {
    let redis = redis();
    let (authority, folder) = (Authority::new(), tempfile::tempdir().unwrap());
    let file = |name: &str, text: &str| written(folder.path(), name, text);
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
    let said = given_up(&without).await;
    assert!(said.to_lowercase().contains("certificate"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_cannot_prove_who_it_is_is_not_talked_to() {
    let redis = redis();
    let (authority, folder) = (Authority::new(), tempfile::tempdir().unwrap());
    let ca_file = written(folder.path(), "ca.pem", authority.pem());
    let stranger = Authority::new();
    for (shown, why) in [
        (stranger.certificate("localhost"), "UnknownIssuer"),
        (authority.certificate("elsewhere"), "not valid for name"),
        (authority.expired_certificate("localhost"), "expired"),
    ] {
        let proxy = TlsProxy::start(redis.address(), &shown, None).await;
        let port = proxy.address().port();
        let pool =
            format!("url = \"rediss://:open-sesame@localhost:{port}\"\ntls_ca_file = {ca_file:?}");
        let said = given_up(&pool).await;
        assert!(said.contains(why), "{why}: {said}");
        assert!(!said.contains("sesame"), "{said}");
    }
    // The authorities of the system do not know ours either.
    let proxy = TlsProxy::start(redis.address(), &authority.certificate("localhost"), None).await;
    let pool = format!("url = \"rediss://localhost:{}\"", proxy.address().port());
    let said = given_up(&pool).await;
    assert!(said.contains("UnknownIssuer"), "{said}");
    // Nobody got as far as to store something.
    let client = redis::Client::open(redis.url()).unwrap();
    let keys: u64 = redis::cmd("DBSIZE")
        .query(&mut client.get_connection().unwrap())
        .unwrap();
    assert_eq!(keys, 0);
}

/// What both daemons say before they give up.
async fn given_up(pool: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let config = format!("connect_patience = \"1s\"\n[pool.default]\n{pool}");
    let config = written(folder.path(), "settings.toml", &config);
    let config = config.to_str().unwrap();
    let mut said = String::new();
    for program in [Program::Api, Program::Pumpd] {
        let ended = run_to_end(program, &["--config", config], LIMIT).await;
        assert_eq!(ended.code, Some(1), "{}", ended.log);
        assert!(!ended.log.contains("panicked"), "{}", ended.log);
        said += &ended.log;
    }
    said
}

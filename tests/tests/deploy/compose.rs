//! Each service of `deploy/compose.yaml` runs with the files, arguments and variables that it has there.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use tidegate_local_program::{ProgramProcess, log_tail};
use tidegate_testkit::{
    Daemon, DaemonProgram, RawHttp, RedisOptions, RedisServer, eventually, free_port,
};

use crate::compose_file::{ComposeService, services, strings};
use crate::files::{path, read, replaced};
use crate::settings::{duration, in_effect, text};
use crate::tools::HAPROXY;

/// How `deploy/compose.yaml` names Redis.
const REDIS_URL: &str = "redis://redis:6379";
/// More than an API accepts while it drains: 6 s of publishes, a stop takes 5 s.
const PUBLISHES: u32 = 60;
const LIMIT: Duration = Duration::from_secs(30);

#[test]
fn what_services_mount_and_depend_on_exists() {
    let services = services();
    let mut mounts = 0;
    for service in services.values() {
        for (file, _) in service.mounts() {
            assert!(path(&file).exists(), "{}: {file}", service.name);
            mounts += 1;
        }
        for name in service.depends_on() {
            assert!(services.contains_key(&name), "{}: {name}", service.name);
        }
    }
    assert!(mounts >= 7, "{mounts}");
    let mounted: Vec<String> = services["redis"]
        .mounts()
        .into_iter()
        .map(|(_, to)| to)
        .collect();
    assert_eq!(
        services["redis"].command(),
        ["redis-server".to_owned(), mounted[0].clone()]
    );
    let include = format!("include {}", mounted[1]);
    assert!(
        read("deploy/compose/redis.conf")
            .lines()
            .any(|line| line == include)
    );
}

#[tokio::test]
async fn the_settings_of_each_daemon_are_accepted_and_its_stop_is_not_cut_off() {
    let mut daemons = BTreeMap::new();
    for service in services().values() {
        let Some(image) = service.daemon() else {
            continue;
        };
        let environment = service.environment(&image);
        let settings = in_effect(image.program(), &service.command(), &environment).await;
        let url = settings["pool"]["default"]["url"].as_str().unwrap();
        assert!(url.starts_with(REDIS_URL), "{url}");
        let stop = match image.program() {
            DaemonProgram::Api => {
                duration(&settings, "drain_delay") + duration(&settings, "drain_timeout")
            }
            // docs/operating.md: a stop hands the buckets over, 10 s at most.
            _ => Duration::from_secs(10),
        };
        assert!(service.stop_grace() > stop, "{}: {stop:?}", service.name);
        assert!(text(&settings, "admin_listen").starts_with("0.0.0.0:"));
        *daemons.entry(image.program().name()).or_insert(0) += 1;
    }
    let expected = [("tidegate-api", 2), ("tidegate-pumpd", 2)];
    assert_eq!(daemons, expected.into());
}

/// An API leaves the balancer before it stops to serve: `fall` checks, each at most `inter` after the one before.
#[tokio::test]
async fn the_balancer_notices_a_stop_within_the_drain_delay() {
    let service = &services()["api-1"];
    let image = service.daemon().unwrap();
    let settings = in_effect(image.program(), &[], &service.environment(&image)).await;
    let configured = read("deploy/compose/haproxy.cfg");
    let words: Vec<&str> = configured.split_whitespace().collect();
    let after = |name: &str| {
        let at = words.iter().position(|word| *word == name).unwrap();
        words[at + 1]
    };
    let interval = tidegate_core::duration::parse(after("inter")).unwrap();
    let checks: u32 = after("fall").parse().unwrap();
    let noticed = interval * (checks + 1);
    assert!(noticed < duration(&settings, "drain_delay"), "{noticed:?}");
    let idle = settings["connections"]["idle_timeout"].as_str().unwrap();
    let keep_alive = tidegate_core::duration::parse(after("http-keep-alive")).unwrap();
    assert!(keep_alive < tidegate_core::duration::parse(idle).unwrap());
}

#[tokio::test]
async fn jobs_pass_through_the_balancer_while_an_api_stops() {
    let folder = tempfile::tempdir().unwrap();
    let redis = tokio::task::spawn_blocking(start_redis).await.unwrap();
    let services = services();
    let mut running = BTreeMap::new();
    for service in services.values() {
        if let Some(daemon) = start_daemon(service, &redis, folder.path()).await {
            running.insert(service.name.clone(), daemon);
        }
    }
    assert_eq!(running.len(), 4);
    let (first, second) = (&running["api-1"], &running["api-2"]);
    let (balancer, port) = start_balancer(&running, folder.path()).await;
    let ready = async || {
        let mut http = RawHttp::connect(([127, 0, 0, 1], port).into()).await;
        http.request("GET", "/readyz", &[], b"").await;
        match http.answer().await {
            Some(answer) if answer.status == 200 => Ok(()),
            other => Err(format!("{other:?}")),
        }
    };
    eventually("the balancer has an API", LIMIT, ready).await;
    first.terminate();
    let token = new_token(second).await;
    let target = format!("/api/shop/orders?delay=0&token={token}");
    for number in 0..PUBLISHES {
        let mut http = RawHttp::connect(([127, 0, 0, 1], port).into()).await;
        http.request("PUT", &target, &[], b"body").await;
        let answer = http.answer().await.unwrap();
        assert_eq!(answer.status, 201, "publish {number}: {answer:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    first.wait(LIMIT).await;
    let mut http = RawHttp::connect(second.listen()).await;
    let target = format!("/api/shop/orders/size?token={token}");
    http.request("GET", &target, &[], b"").await;
    let size = http.answer().await.unwrap().expect(200).json();
    assert_eq!(size["size"], PUBLISHES, "{size}");
    drop(balancer);
}

/// A token for the namespace `shop`, made with the account of the services.
async fn new_token(api: &Daemon) -> String {
    let service = &services()["api-1"];
    let environment = service.environment(&service.daemon().unwrap());
    let account = environment.iter().find_map(|(name, password)| {
        let name = name.strip_prefix("TIDEGATE_ACCOUNTS__")?.to_lowercase();
        Some(format!("{name}:{password}"))
    });
    let login = format!("Basic {}", BASE64_STANDARD.encode(account.unwrap()));
    let mut http = RawHttp::connect(api.admin()).await;
    let headers = [("Authorization".to_owned(), login)];
    http.request("POST", "/token/shop?description=test", &headers, b"")
        .await;
    let answer = http.answer().await.unwrap().expect(201).json();
    answer["token"].as_str().unwrap().to_owned()
}

/// The server of the service: its file, with the paths of this machine.
fn start_redis() -> RedisServer {
    let included = path("deploy/redis/redis.conf").display().to_string();
    let own = read("deploy/compose/redis.conf");
    let lines = own
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    // The folder is that of the test.
    let lines = lines.filter(|line| !line.starts_with("dir "));
    let options = lines.fold(RedisOptions::new(), |options, line| {
        match line.split_once(' ').unwrap() {
            ("include", _) => options.setting("include", &included),
            (name, value) => options.setting(name, value),
        }
    });
    options.start()
}

async fn start_daemon(
    service: &ComposeService,
    redis: &RedisServer,
    folder: &Path,
) -> Option<Daemon> {
    let image = service.daemon()?;
    let mut environment = service.environment(&image);
    let url = environment.iter_mut().find(|(_, value)| value == REDIS_URL);
    url.unwrap().1 = redis.url();
    let borrowed: Vec<(&str, &str)> = environment
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    let arguments = service.command();
    Some(
        Daemon::start_with(
            image.program(),
            &service.name,
            &arguments,
            &borrowed,
            folder,
        )
        .await,
    )
}

/// Runs the balancer of the service, with the addresses of the daemons instead of the names of containers.
async fn start_balancer(
    daemons: &BTreeMap<String, Daemon>,
    folder: &Path,
) -> (ProgramProcess, u16) {
    let service = &services()["balancer"];
    let port = free_port().unwrap();
    assert_eq!(strings(&service.value["ports"]), ["7777:7777"]);
    let names = daemons.iter().filter(|(name, _)| name.starts_with("api"));
    let mut pairs: Vec<(String, String)> = names
        .map(|(name, daemon)| (format!("{name}:7777"), daemon.listen().to_string()))
        .collect();
    // Each connection of a client needs two files; the machine of the test may allow fewer.
    let files_max = service.value["ulimits"]["nofile"].as_u64().unwrap();
    assert!(files_max > 2 * 20_000 + 100, "{files_max}");
    pairs.push(("maxconn 20000".to_owned(), "maxconn 500".to_owned()));
    pairs.push(("bind :7777".to_owned(), format!("bind 127.0.0.1:{port}")));
    let file = folder.join("haproxy.cfg");
    let (mounted, _) = &service.mounts()[0];
    std::fs::write(&file, replaced(&read(mounted), &pairs)).unwrap();
    let log = folder.join("haproxy.log");
    let start = move || {
        let mut command = HAPROXY.obtain().command("usr/sbin/haproxy");
        command.arg("-db").arg("-f").arg(file);
        let mut process = ProgramProcess::start(&mut command, &log).unwrap();
        let connect = || std::net::TcpStream::connect(("127.0.0.1", port));
        let is_up = || connect().map(drop).map_err(|error| error.to_string());
        let started = process.wait_until(LIMIT, is_up);
        started.unwrap_or_else(|error| panic!("{error}: {}", log_tail(&log, 0)));
        process
    };
    (tokio::task::spawn_blocking(start).await.unwrap(), port)
}

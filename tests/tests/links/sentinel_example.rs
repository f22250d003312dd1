//! The example files of `deploy/redis/sentinel`: installed as their README says, on three machines that are folders.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Client, FromRedisValue};
use tempfile::TempDir;
use tidegate_testkit::{
    RedisOptions, RedisServer, WholeFile, connect_to_redis, consistency, eventually, free_port,
};

use crate::fleet::{Fleet, live_through};
use crate::turn;

const SHARED_SETTINGS: &str = include_str!("../../../deploy/redis/redis.conf");
const USERS: [&str; 2] = [
    include_str!("../../../deploy/redis/users.acl"),
    include_str!("../../../deploy/redis/sentinel/users.acl"),
];
const MASTER: &str = include_str!("../../../deploy/redis/sentinel/redis-master.conf");
const REPLICA: &str = include_str!("../../../deploy/redis/sentinel/redis-replica.conf");
const SENTINEL: &str = include_str!("../../../deploy/redis/sentinel/sentinel.conf");
/// The time limit of a failover: ten times what it takes with the example's `down-after-milliseconds` of 3 s.
const LIMIT: Duration = Duration::from_secs(60);

/// A folder that stands for `/etc/redis` and `/var/lib/redis` of a machine, and the processes on it.
struct Machine {
    folder: PathBuf,
    server: RedisServer,
    sentinel: Option<RedisServer>,
}

struct Example {
    machines: Vec<Machine>,
    _folder: TempDir,
}

impl Example {
    /// Installs and starts the servers, and then the sentinels.
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let ports = [(); 3].map(|()| free_port().unwrap());
        let machines = tokio::task::block_in_place(|| {
            let numbered = ports.iter().enumerate();
            let servers = numbered.map(|(number, port)| {
                let text = if number == 0 { MASTER } else { REPLICA };
                let at = folder.path().join(format!("machine-{number}"));
                Machine::start(at, text, ports[0], *port)
            });
            servers.collect::<Vec<_>>()
        });
        let mut example = Self {
            machines,
            _folder: folder,
        };
        let up = async || match example.info(0).await?.matches("state=online").count() {
            2 => Ok(()),
            other => Err(format!("{other} online")),
        };
        eventually("two replicas follow", LIMIT, up).await;
        tokio::task::block_in_place(|| {
            for machine in &mut example.machines {
                machine.start_sentinel(ports[0]);
            }
        });
        eventually("the sentinels know each other", LIMIT, async || {
            let command = ["CKQUORUM", "tide"];
            let message: String = example.ask_sentinel(0, &command).await?;
            match message.starts_with("OK 3 usable Sentinels") {
                true => Ok(()),
                false => Err(message),
            }
        })
        .await;
        example
    }

    /// The settings of Tidegate in the README of the example.
    fn settings(&self) -> String {
        let sentinels = self.machines.iter().filter_map(|it| it.sentinel.as_ref());
        let addresses: Vec<_> = sentinels.map(|it| it.address().to_string()).collect();
        format!(
            "sentinels = {addresses:?}\nmaster_name = \"tide\"\nusername = \"tidegate\"\npassword = \"CHANGE-ME\"\n\
             sentinel_username = \"tidegate\"\nsentinel_password = \"CHANGE-ME-SENTINEL-TIDEGATE\"\n"
        )
    }

    fn url(&self, machine: usize) -> String {
        let address = self.machines[machine].server.address();
        format!("redis://admin:CHANGE-ME-ADMIN@{address}")
    }

    /// What a server says about its replication. Fails while the server changes its role, which ends its connections.
    async fn info(&self, machine: usize) -> Result<String, String> {
        let text = |error: redis::RedisError| error.to_string();
        let mut connection = connect(&self.url(machine)).await.map_err(text)?;
        let mut command = redis::cmd("INFO");
        let answer = command.arg("replication").query_async(&mut connection);
        answer.await.map_err(text)
    }

    async fn ask_sentinel<T: FromRedisValue>(
        &self,
        machine: usize,
        words: &[&str],
    ) -> Result<T, String> {
        let sentinel = self.machines[machine].sentinel.as_ref().unwrap();
        let url = format!(
            "redis://admin:CHANGE-ME-SENTINEL-ADMIN@{}",
            sentinel.address()
        );
        let text = |error: redis::RedisError| error.to_string();
        let mut connection = connect(&url).await.map_err(text)?;
        let mut command = redis::cmd("SENTINEL");
        let answer = command.arg(words).query_async(&mut connection);
        answer.await.map_err(text)
    }

    /// Waits until the sentinel on the second machine reports another master than the first server; returns its number.
    async fn until_replaced(&self) -> usize {
        let command = ["GET-MASTER-ADDR-BY-NAME", "tide"];
        eventually("another master is chosen", LIMIT, async || {
            let (_, port): (String, u16) = self.ask_sentinel(1, &command).await?;
            let ports: Vec<_> = self.machines.iter().map(|it| it.server.port()).collect();
            match ports.iter().position(|it| *it == port) {
                Some(number) if number > 0 => Ok(number),
                other => Err(format!("{other:?}")),
            }
        })
        .await
    }
}

impl Machine {
    fn start(folder: PathBuf, text: &str, master: u16, port: u16) -> Self {
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("tidegate.conf"), SHARED_SETTINGS).unwrap();
        fs::write(folder.join("users.acl"), USERS.concat()).unwrap();
        let server = RedisOptions::new().whole_file(WholeFile {
            text: installed(text, &folder, master, port),
            port,
            user: "admin",
            password: "CHANGE-ME-ADMIN",
        });
        Self {
            server: server.start(),
            folder,
            sentinel: None,
        }
    }

    fn start_sentinel(&mut self, master: u16) {
        let port = free_port().unwrap();
        let sentinel = RedisOptions::sentinel().whole_file(WholeFile {
            text: installed(SENTINEL, &self.folder, master, port),
            port,
            user: "admin",
            password: "CHANGE-ME-SENTINEL-ADMIN",
        });
        self.sentinel = Some(sentinel.start());
    }

    /// The server's own file, which the example installs as `/etc/redis/redis.conf`.
    fn own_file(&self) -> String {
        fs::read_to_string(self.server.data_folder().join("redis.conf")).unwrap()
    }

    fn shared_file(&self) -> String {
        fs::read_to_string(self.folder.join("tidegate.conf")).unwrap()
    }
}

/// The text of an example file on this machine. All machines have the address 127.0.0.1, so they differ by port.
fn installed(text: &str, folder: &Path, master: u16, port: u16) -> String {
    let folder = folder.display();
    text.replace("10.0.0.11 6379", &format!("127.0.0.1 {master}"))
        .replace("bind 10.0.0.11 127.0.0.1", "bind 127.0.0.1")
        .replace("bind 10.0.0.12 127.0.0.1", "bind 127.0.0.1")
        .replace("\nport 6379\n", &format!("\nport {port}\n"))
        .replace("\nport 26379\n", &format!("\nport {port}\n"))
        .replace("/etc/redis/", &format!("{folder}/"))
        .replace("/var/lib/redis", &folder.to_string())
}

async fn connect(url: &str) -> redis::RedisResult<MultiplexedConnection> {
    connect_to_redis(&Client::open(url)?).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_example_serves_after_a_failover_and_its_shared_file_is_unchanged() {
    let _turn = turn().await;
    let mut example = Example::start().await;
    let fleet = Fleet::start(1, 1, &example.settings()).await;
    live_through(&fleet).await;
    let queue = fleet.queue("q").await;
    let id = queue.publish("x").id().await;
    // All that was acknowledged reaches both replicas before the master ends.
    let mut master = connect(&example.url(0)).await.unwrap();
    let mut wait = redis::cmd("WAIT");
    let reached: usize = wait.arg(2).arg(0).query_async(&mut master).await.unwrap();
    assert_eq!(reached, 2);
    tokio::task::block_in_place(|| example.machines[0].server.kill());
    let chosen = example.until_replaced().await;
    // One replica is left. `min-replicas-to-write 1` rejects writes until it follows the new master.
    let is_followed = async || match example.info(chosen).await? {
        text if text.contains("role:master") && text.contains("state=online") => Ok(()),
        other => Err(other),
    };
    eventually("the other replica follows", LIMIT, is_followed).await;
    let publishes = async || match queue.publish("y").send().await {
        Ok(answer) if answer.status == 201 => Ok(()),
        other => Err(format!("{other:?}")),
    };
    eventually("the API follows", LIMIT, publishes).await;
    live_through(&fleet).await;
    let job = queue.consume().timeout_s(20).ttr_s(60).job().await;
    assert_eq!(job.unwrap().id, id);
    // The first server comes back as a replica: its file and the sentinels make it one.
    tokio::task::block_in_place(|| example.machines[0].server.restart().unwrap());
    let follows = async || match example.info(0).await? {
        text if text.contains("role:slave") && text.contains("master_link_status:up") => Ok(()),
        other => Err(other),
    };
    eventually("the old master follows", LIMIT, follows).await;
    for machine in &example.machines {
        assert_eq!(machine.shared_file(), SHARED_SETTINGS);
        let own = machine.own_file();
        assert!(own.contains("\ninclude "), "{own}");
    }
    let rewritten = example.machines[chosen].own_file();
    assert!(!rewritten.contains("\nreplicaof "), "{rewritten}");
    let first = example.machines[0].own_file();
    assert!(first.contains("\nreplicaof "), "{first}");
    consistency::check(&example.url(chosen)).await;
}

//! The server under test.
//!
//! By default it is a stack that the suite starts. With `TARGET_URL`, `TARGET_ADMIN_URL` and `TARGET_KIND` it is a
//! running server, of which only the two ports are used.

use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::panic::Location;
use std::sync::{Once, OnceLock};
use std::time::Duration;

use tidegate_testkit::{SharedStack, SharedStackGuard, Stack, print_figure};

const URL: &str = "TARGET_URL";
const ADMIN_URL: &str = "TARGET_ADMIN_URL";
const KIND: &str = "TARGET_KIND";

const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// The wire does not show waiting consumers, so tests wait this long for a given server to have them.
const NOTICE_TIME: Duration = Duration::from_millis(100);

static STACK: SharedStack = SharedStack::new(Stack::builder);

/// A server that takes requests.
#[derive(Debug)]
pub(crate) struct ConformanceTarget {
    pub(crate) public: SocketAddr,
    pub(crate) admin: SocketAddr,
    /// Keeps the server running, if the suite has started it.
    stack: Option<SharedStackGuard>,
}

impl ConformanceTarget {
    /// A server that other tests use too.
    pub(crate) async fn get() -> Self {
        match given() {
            Some(given) => Self::at(given),
            None => Self::on(STACK.acquire().await),
        }
    }

    /// A server that no other test uses, unless one is given.
    pub(crate) async fn alone() -> Self {
        match given() {
            Some(given) => Self::at(given),
            None => Self::on(SharedStack::new(Stack::builder).acquire().await),
        }
    }

    fn on(stack: SharedStackGuard) -> Self {
        Self {
            public: stack.api(0).listen(),
            admin: stack.api(0).admin(),
            stack: Some(stack),
        }
    }

    const fn at(given: &Given) -> Self {
        Self {
            public: given.public,
            admin: given.admin,
            stack: None,
        }
    }

    /// Waits until this many consumers wait at this server.
    pub(crate) async fn until_waiting(&self, consumers: usize) {
        match &self.stack {
            Some(stack) => stack.api(0).wait_for_waiting_consumers(consumers).await,
            None => tokio::time::sleep(NOTICE_TIME).await,
        }
    }

    /// Checks in the Redis of a stack that no job is lost or counted wrongly.
    pub(crate) async fn check(&self) {
        static TOLD: Once = Once::new();
        match &self.stack {
            Some(stack) => stack.check_conservation().await,
            None => TOLD.call_once(|| {
                print_figure(
                    "the Redis of a given server is not accessible: only its answers are checked",
                );
            }),
        }
    }
}

/// Whether an intended difference from lmstfy is asserted. Against lmstfy it is left out, and the reason is printed.
#[track_caller]
pub(crate) fn better(why: &str) -> bool {
    let place = Location::caller();
    better_at(&format!("{}:{}", place.file(), place.line()), why)
}

/// The same, for a place that is not a line of Rust.
pub(crate) fn better_at(place: &str, why: &str) -> bool {
    let is_lmstfy = given().is_some_and(|given| given.kind == Kind::Lmstfy);
    if is_lmstfy {
        print_figure(&format!("left out for lmstfy: {why} ({place})"));
    }
    !is_lmstfy
}

#[derive(Debug, PartialEq, Eq)]
enum Kind {
    Lmstfy,
    Tidegate,
}

/// A server that runs already.
#[derive(Debug)]
struct Given {
    public: SocketAddr,
    admin: SocketAddr,
    kind: Kind,
}

/// The server that the environment names, if any. An invalid value ends the whole run, since each test would fail with
/// the same error.
fn given() -> Option<&'static Given> {
    static GIVEN: OnceLock<Option<Given>> = OnceLock::new();
    let given = GIVEN.get_or_init(|| {
        read_environment().unwrap_or_else(|problem| {
            print_figure(&problem);
            std::process::exit(1)
        })
    });
    given.as_ref()
}

fn read_environment() -> Result<Option<Given>, String> {
    match [URL, ADMIN_URL, KIND].map(|name| std::env::var(name).ok()) {
        [None, None, None] => Ok(None),
        [Some(url), Some(admin_url), Some(kind)] => Ok(Some(Given {
            public: reach(URL, &url)?,
            admin: reach(ADMIN_URL, &admin_url)?,
            kind: match kind.as_str() {
                "lmstfy" => Kind::Lmstfy,
                "tidegate" => Kind::Tidegate,
                _ => return Err(format!("{KIND} is {kind:?}, not lmstfy or tidegate")),
            },
        })),
        _ => Err(format!(
            "{URL}, {ADMIN_URL} and {KIND} are set all together or not at all"
        )),
    }
}

/// The address of a server, after a connection to it has succeeded.
fn reach(variable: &str, url: &str) -> Result<SocketAddr, String> {
    let address = url
        .strip_prefix("http://")
        .map(|rest| rest.trim_end_matches('/'));
    let address = address.ok_or_else(|| format!("{variable} is {url:?}, not http://host:port"))?;
    let found = address.to_socket_addrs();
    let mut found = found.map_err(|error| format!("{variable} is {url:?}: {error}"))?;
    found
        .find(|address| TcpStream::connect_timeout(address, CONNECT_LIMIT).is_ok())
        .ok_or_else(|| format!("{variable} is {url:?}, where no server listens"))
}

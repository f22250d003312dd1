//! An S3 server on a folder that speaks the real protocol, and that can be made to misbehave.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use s3s::auth::SimpleAuth;
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s::{Body, HttpError};
use s3s_fs::FileSystem;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::sleep;

const ACCESS_KEY: &str = "tidegate-tests";
const SECRET_KEY: &str = "secret-of-the-tests";
/// The bucket that the server has.
const BUCKET: &str = "jobs";
/// How far apart the bytes are that are altered: each payload of the tests has one.
const ALTERED: usize = 100;

/// How the server answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum S3Behaviour {
    Correct,
    /// Each answer takes two seconds.
    Slow,
    /// Every second request is answered 503.
    FailsHalf,
    /// Some bytes of each object that is read are others.
    Alters,
}

/// The server. Dropping it stops it.
pub(crate) struct S3Server {
    address: SocketAddr,
    state: Arc<S3State>,
    _serving: JoinSet<()>,
}

struct S3State {
    service: S3Service,
    behaviour: AtomicU64,
    requests: AtomicU64,
}

impl S3Server {
    /// Starts a server whose objects are files in this folder.
    pub(crate) async fn start(folder: &Path) -> Self {
        let bucket = folder.join(BUCKET);
        std::fs::create_dir_all(&bucket).expect("a folder for the bucket");
        let mut builder = S3ServiceBuilder::new(FileSystem::new(folder).expect("a folder"));
        builder.set_auth(SimpleAuth::from_single(ACCESS_KEY, SECRET_KEY));
        let state = Arc::new(S3State {
            service: builder.build(),
            behaviour: AtomicU64::new(S3Behaviour::Correct as u64),
            requests: AtomicU64::new(0),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let mut serving = JoinSet::new();
        let accepted = Arc::clone(&state);
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream, Arc::clone(&accepted)));
            }
        });
        Self {
            address,
            state,
            _serving: serving,
        }
    }

    pub(crate) fn url() -> String {
        format!("s3://{BUCKET}/tidegate")
    }

    /// The variables with which the daemons find the server.
    pub(crate) fn environment(&self, secret_key: &str) -> Vec<(String, String)> {
        let endpoint = format!("http://{}", self.address);
        let pairs = [
            ("AWS_ENDPOINT", endpoint.as_str()),
            ("AWS_REGION", "us-east-1"),
            ("AWS_ACCESS_KEY_ID", ACCESS_KEY),
            ("AWS_SECRET_ACCESS_KEY", secret_key),
        ];
        let pairs = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
        pairs.to_vec()
    }

    pub(crate) const fn secret_key() -> &'static str {
        SECRET_KEY
    }

    pub(crate) fn behave(&self, behaviour: S3Behaviour) {
        let behaviour = behaviour as u64;
        self.state.behaviour.store(behaviour, Ordering::Relaxed);
    }

    /// How many requests it has had.
    pub(crate) fn requests(&self) -> u64 {
        self.state.requests.load(Ordering::Relaxed)
    }
}

async fn serve(stream: TcpStream, state: Arc<S3State>) {
    let answering = service_fn(move |request| answer(Arc::clone(&state), request));
    let connection = hyper::server::conn::http1::Builder::new();
    // A client that went away.
    let _ = connection
        .serve_connection(TokioIo::new(stream), answering)
        .await;
}

async fn answer(
    state: Arc<S3State>,
    request: Request<Incoming>,
) -> Result<Response<Body>, HttpError> {
    let number = state.requests.fetch_add(1, Ordering::Relaxed);
    let behaviour = state.behaviour.load(Ordering::Relaxed);
    let is = |other: S3Behaviour| behaviour == other as u64;
    let reads = request.method() == Method::GET && request.uri().query().is_none();
    if is(S3Behaviour::Slow) {
        sleep(Duration::from_secs(2)).await;
    }
    if is(S3Behaviour::FailsHalf) && number % 2 == 1 {
        let mut failure = Response::new(Body::empty());
        *failure.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
        return Ok(failure);
    }
    let answer = state.service.call(request.map(Body::from)).await?;
    if is(S3Behaviour::Alters) && reads {
        return Ok(altered(answer).await);
    }
    Ok(answer)
}

async fn altered(answer: Response<Body>) -> Response<Body> {
    let (head, body) = answer.into_parts();
    let whole = body.collect().await.map(|body| body.to_bytes());
    let mut bytes = whole.unwrap_or_default().to_vec();
    for byte in bytes.iter_mut().skip(ALTERED / 2).step_by(ALTERED) {
        *byte ^= 1;
    }
    Response::from_parts(head, Body::from(Bytes::from(bytes)))
}

//! A web server whose answers are what the payload of a job demands.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

pub(crate) const ANY_PORT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// A request: its path, headers in lower case, and body.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReceivedRequest {
    pub(crate) path: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
}

/// The server. Dropping it closes its port.
pub(crate) struct WebhookEndpoint {
    pub(crate) address: SocketAddr,
    received: Arc<Mutex<Vec<ReceivedRequest>>>,
    accepting: JoinHandle<()>,
}

impl Drop for WebhookEndpoint {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// What becomes of a connection after an answer.
#[derive(Debug, Clone, Copy)]
pub(crate) enum AfterAnswer {
    Keep,
    /// It is closed at once.
    Close,
    /// It is closed when the next request begins.
    CloseAtNextRequest,
}

/// Draws what becomes of the connection after each answer.
pub(crate) type DrawAfterAnswer = Arc<dyn Fn() -> AfterAnswer + Send + Sync>;

impl WebhookEndpoint {
    pub(crate) async fn start(address: SocketAddr) -> Self {
        Self::start_with(address, Arc::new(|| AfterAnswer::Keep)).await
    }

    /// A server that closes connections, without saying so, as drawn.
    pub(crate) async fn start_with(address: SocketAddr, draw: DrawAfterAnswer) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let received = Arc::new(Mutex::new(Vec::new()));
        let all = Arc::clone(&received);
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let all = Arc::clone(&all);
                tokio::spawn(serve(stream, all, Arc::clone(&draw)));
            }
        });
        Self {
            address,
            received,
            accepting,
        }
    }

    pub(crate) fn received(&self) -> Vec<ReceivedRequest> {
        self.received.lock().unwrap().clone()
    }
}

async fn serve(stream: TcpStream, all: Arc<Mutex<Vec<ReceivedRequest>>>, draw: DrawAfterAnswer) {
    let mut stream = BufReader::new(stream);
    while let Some(request) = read(&mut stream).await {
        let answer = answer_to(&request.body);
        all.lock().unwrap().push(request);
        let Some(answer) = answer else {
            // Silent as long as the client waits.
            let _ = stream.read_u8().await;
            return;
        };
        let breaks_off = answer.contains("Content-Length: 99");
        if stream.write_all(answer.as_bytes()).await.is_err() || breaks_off {
            return;
        }
        match draw() {
            AfterAnswer::Keep => {}
            AfterAnswer::Close => return,
            AfterAnswer::CloseAtNextRequest => {
                let _ = stream.read_u8().await;
                return;
            }
        }
    }
}

/// The bytes of the answer; `None` for none.
fn answer_to(body: &str) -> Option<String> {
    let full = |head: &str| Some(format!("HTTP/1.1 {head}\r\nContent-Length: 5\r\n\r\nsorry"));
    match body {
        "410" => full("410 Gone"),
        "413" => full("413 Payload Too Large"),
        "431" => full("431 Request Header Fields Too Large"),
        "date" => full("503 Service Unavailable\r\nRetry-After: Fri, 31 Dec 9999 23:59:59 GMT"),
        "429" => full("429 Too Many Requests\r\nRetry-After: 1000"),
        "now" => full("429 Too Many Requests\r\nRetry-After: 0"),
        "503" => full("503 Service Unavailable\r\nRetry-After: 1000"),
        "500" => full("500 Internal Server Error"),
        "redirect" => full("302 Found\r\nLocation: /elsewhere"),
        "half" => Some("HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nhalf of it".to_owned()),
        "long half" => Some(format!(
            "HTTP/1.1 200 OK\r\nContent-Length: 990000\r\n\r\n{}",
            "x".repeat(100_000)
        )),
        "long 500" => Some(format!(
            "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 200005\r\n\r\nsorry{}",
            " ".repeat(200_000)
        )),
        "long 200" => Some(format!(
            "HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n{}",
            "x".repeat(200_000)
        )),
        "garbage" => Some("220 smtp.example.com ESMTP\r\n".to_owned()),
        "silent" => None,
        _ => full("200 OK"),
    }
}

async fn read(stream: &mut BufReader<TcpStream>) -> Option<ReceivedRequest> {
    let mut line = String::new();
    stream
        .read_line(&mut line)
        .await
        .ok()
        .filter(|read| *read > 0)?;
    let mut request = ReceivedRequest {
        path: line.split(' ').nth(1)?.to_owned(),
        ..ReceivedRequest::default()
    };
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.ok()?;
        let Some((name, value)) = line.trim().split_once(':') else {
            break;
        };
        request
            .headers
            .insert(name.to_lowercase(), value.trim().to_owned());
    }
    let length = request
        .headers
        .get("content-length")
        .map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    request.body = String::from_utf8(body).unwrap();
    Some(request)
}

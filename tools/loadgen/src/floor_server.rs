//! The least that an HTTP server can do: read a request, and write the same answer each time.

use std::io;
use std::net::SocketAddr;
use std::sync::mpsc;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, header};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::sync::oneshot;

use crate::cpu::thread_cpu_seconds;
use crate::error::LoadgenError;

/// Headers that hyper writes itself.
const OF_HYPER: [header::HeaderName; 3] =
    [header::CONNECTION, header::CONTENT_LENGTH, header::DATE];

/// A server of hyper without routes, on one thread, as an API with default settings.
pub(crate) struct FloorServer {
    pub(crate) address: SocketAddr,
    thread: rustix::thread::Pid,
    /// Ends it when dropped.
    _stop: oneshot::Sender<()>,
}

impl FloorServer {
    /// Answers each request with the head and the body of `answer`, once it has read the body of the request.
    ///
    /// # Errors
    /// No thread or no port is free, or `answer` is not an answer.
    pub(crate) fn start(answer: &[u8]) -> Result<Self, LoadgenError> {
        let failed = || LoadgenError::io("starting the server that is the floor".to_owned());
        let answer = parse_answer(answer).map_err(failed())?;
        let listener = std::net::TcpListener::bind("127.0.0.1:0").map_err(failed())?;
        let address = listener.local_addr().map_err(failed())?;
        listener.set_nonblocking(true).map_err(failed())?;
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(failed())?;
        let (stop, stopped) = oneshot::channel();
        let (started, thread) = mpsc::sync_channel(1);
        let run = move || {
            // The caller waits for it.
            let _ = started.send(rustix::thread::gettid());
            runtime.block_on(async {
                tokio::select! {
                    _ = stopped => {}
                    _ = accept(listener, answer) => {}
                }
            });
        };
        let named = std::thread::Builder::new().name("floor".to_owned());
        named.spawn(run).map_err(failed())?;
        let ended = |error| io::Error::other(error);
        let thread = thread.recv().map_err(ended).map_err(failed())?;
        Ok(Self {
            address,
            thread,
            _stop: stop,
        })
    }

    /// CPU seconds of its thread since its start.
    pub(crate) fn cpu_seconds(&self) -> Result<f64, LoadgenError> {
        thread_cpu_seconds(self.thread)
    }
}

async fn accept(listener: std::net::TcpListener, answer: Response<Bytes>) -> io::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    loop {
        // A connection that is not accepted fails at its client.
        if let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, answer.clone()));
        }
    }
}

async fn serve(stream: TcpStream, answer: Response<Bytes>) -> hyper::Result<()> {
    // Without it, answers wait for acknowledgements of the kernel; the API sets it, too.
    let _ = stream.set_nodelay(true);
    let answer = &answer;
    let service = service_fn(move |request: Request<Incoming>| async move {
        request.into_body().collect().await?;
        Ok::<_, hyper::Error>(answer.clone().map(Full::new))
    });
    http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .await
}

fn parse_answer(bytes: &[u8]) -> io::Result<Response<Bytes>> {
    let bad = |error: String| io::Error::new(io::ErrorKind::InvalidData, error);
    let mut headers = [httparse::EMPTY_HEADER; 32];
    let mut parsed = httparse::Response::new(&mut headers);
    let head = match parsed
        .parse(bytes)
        .map_err(|error| bad(error.to_string()))?
    {
        httparse::Status::Complete(head) => head,
        httparse::Status::Partial => return Err(bad("a part of an answer".to_owned())),
    };
    let mut answer = Response::builder().status(parsed.code.unwrap_or_default());
    for header in parsed.headers.iter() {
        if header
            .name
            .eq_ignore_ascii_case(header::TRANSFER_ENCODING.as_str())
        {
            return Err(bad("an answer in chunks".to_owned()));
        }
        if !OF_HYPER
            .iter()
            .any(|name| name.as_str().eq_ignore_ascii_case(header.name))
        {
            answer = answer.header(header.name, header.value);
        }
    }
    let body = Bytes::copy_from_slice(&bytes[head..]);
    answer.body(body).map_err(|error| bad(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::HttpConnection;

    #[tokio::test]
    async fn each_request_gets_the_answer() {
        let answer = b"HTTP/1.1 201 Created\r\nx-request-id: 7\r\ncontent-length: 2\r\n\r\nok";
        let server = FloorServer::start(answer).unwrap();
        let mut connection = HttpConnection::open(server.address, 0).await.unwrap();
        // CPU time is counted in steps of 10 ms.
        while server.cpu_seconds().unwrap() == 0.0 {
            let request = b"PUT /a HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc";
            let answer = connection.exchange(request).await.unwrap();
            assert_eq!((answer.status, answer.body), (201, b"ok".as_slice()));
            let raw = String::from_utf8(connection.last_answer().to_vec()).unwrap();
            assert!(raw.contains("x-request-id: 7\r\n"), "{raw}");
        }
    }

    #[test]
    fn what_is_not_an_answer_is_refused() {
        for bad in [
            &b""[..],
            b"HTTP/1.1 201 Cre",
            b"what?\r\n\r\n",
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        ] {
            assert!(parse_answer(bad).is_err());
        }
    }
}

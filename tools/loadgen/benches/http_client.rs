//! CPU time of the load generator's HTTP client and of reqwest, for 1000 requests on one connection.
//!
//! `cargo bench -p tidegate-loadgen` measures in alternating rounds; `cargo test` runs one short round.

#![expect(clippy::unwrap_used, reason = "a benchmark fails by a panic")]
#![expect(clippy::print_stdout, reason = "the output of the benchmark")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tidegate_loadgen::bench::exchange;
use tokio::runtime::Runtime;

const PATH: &str = "/api/shop/mail?delay=1&ttl=60&tries=1";
const TOKEN: &str = "01HZX0000000000000000000AB";
const BODY: [u8; 100] = [b'x'; 100];
const ANSWER: &[u8] =
    b"HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: 57\r\n\r\n\
    {\"job_id\":\"01HZX0000000000000000000AB\",\"msg\":\"published\"}";

fn main() {
    let (rounds, requests) = match std::env::args().any(|argument| argument == "--bench") {
        true => (20, 20_000),
        false => (1, 100),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let mut ratios = Vec::new();
    for round in 1..=rounds {
        let own = cpu_per_1000(requests, || run_own(&runtime, requests));
        let reqwest = cpu_per_1000(requests, || run_reqwest(&runtime, requests));
        let ratio = reqwest.as_secs_f64() / own.as_secs_f64();
        println!("round {round}: own {own:.1?}, reqwest {reqwest:.1?}, ratio {ratio:.2}");
        ratios.push(ratio);
    }
    ratios.sort_by(f64::total_cmp);
    let median = ratios[ratios.len() / 2];
    let (least, most) = (ratios[0], ratios[ratios.len() - 1]);
    println!("reqwest / own: median {median:.2} ({least:.2} to {most:.2})");
}

/// CPU time of this thread for 1000 requests.
fn cpu_per_1000(requests: usize, run: impl FnOnce() -> usize) -> Duration {
    let begin = thread_cpu_time();
    assert_eq!(run(), requests, "each request is answered with 201");
    let used = thread_cpu_time() - begin;
    used * 1000 / u32::try_from(requests).unwrap()
}

fn thread_cpu_time() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap()
}

fn run_own(runtime: &Runtime, requests: usize) -> usize {
    let address = respond();
    let mut request = format!(
        "PUT {PATH} HTTP/1.1\r\nHost: {address}\r\nX-Token: {TOKEN}\r\nContent-Length: {}\r\n\r\n",
        BODY.len()
    )
    .into_bytes();
    request.extend(BODY);
    let run = exchange(address, &request, requests);
    runtime.block_on(run).unwrap()
}

fn run_reqwest(runtime: &Runtime, requests: usize) -> usize {
    let address = respond();
    runtime.block_on(async {
        let client = reqwest::Client::new();
        let url = format!("http://{address}{PATH}");
        let mut created = 0;
        for _ in 0..requests {
            let request = client.put(&url).header("X-Token", TOKEN).body(&BODY[..]);
            let answer = request.send().await.unwrap();
            created += usize::from(answer.status() == 201);
            assert!(!answer.bytes().await.unwrap().is_empty());
        }
        created
    })
}

/// Answers the requests of one connection, in another thread. Each request ends with the body.
fn respond() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        stream.set_nodelay(true).unwrap();
        answer_all(stream);
    });
    address
}

fn answer_all(mut stream: TcpStream) {
    let mut request = Vec::new();
    let mut piece = [0; 4096];
    while let Ok(length) = stream.read(&mut piece) {
        if length == 0 {
            return;
        }
        request.extend_from_slice(&piece[..length]);
        if request.ends_with(&BODY) {
            stream.write_all(ANSWER).unwrap();
            request.clear();
        }
    }
}

//! Each kind of weather, and what happens at one moment.

use std::time::Instant;

use super::*;

/// A server that answers what it is told; and what it was told.
async fn echo() -> (SocketAddr, watch::Receiver<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (heard, hearing) = watch::channel(0);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let heard = heard.clone();
            tokio::spawn(async move {
                let mut buffer = [0; 64];
                while let Ok(read @ 1..) = stream.read(&mut buffer).await {
                    heard.send_modify(|bytes| *bytes += read);
                    stream.write_all(&buffer[..read]).await.unwrap();
                }
            });
        }
    });
    (address, hearing)
}

async fn proxy() -> (FaultProxy, watch::Receiver<usize>) {
    let (target, heard) = echo().await;
    (FaultProxy::start(target, 1).await, heard)
}

async fn client(proxy: &FaultProxy) -> TcpStream {
    TcpStream::connect(proxy.address()).await.unwrap()
}

async fn ask(stream: &mut TcpStream) -> io::Result<u8> {
    stream.write_all(b"x").await?;
    stream.read_u8().await
}

fn flowing(to_server: Flow, to_client: Flow) -> Weather {
    let way = |flow| Way {
        flow,
        ..Way::default()
    };
    Weather {
        to_server: way(to_server),
        to_client: way(to_client),
        refuses: false,
    }
}

#[tokio::test]
async fn what_is_said_arrives_and_a_cut_ends_it_for_both() {
    let (proxy, _) = proxy().await;
    let mut stream = client(&proxy).await;
    assert_eq!(ask(&mut stream).await.unwrap(), b'x');
    proxy.cut();
    let error = stream.read_u8().await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    assert_eq!(ask(&mut client(&proxy).await).await.unwrap(), b'x');
}

#[tokio::test]
async fn a_refusing_proxy_ends_new_connections_only() {
    let (proxy, _) = proxy().await;
    let mut old = client(&proxy).await;
    ask(&mut old).await.unwrap();
    proxy.set(Weather {
        refuses: true,
        ..Weather::default()
    });
    assert!(ask(&mut client(&proxy).await).await.is_err());
    assert_eq!(ask(&mut old).await.unwrap(), b'x');
}

#[tokio::test]
async fn stalled_bytes_arrive_when_they_may() {
    let (proxy, heard) = proxy().await;
    proxy.set(flowing(Flow::Stalls, Flow::Passes));
    let mut stream = client(&proxy).await;
    stream.write_all(b"x").await.unwrap();
    let waiting = tokio::time::timeout(Duration::from_millis(50), stream.read_u8());
    assert!(waiting.await.is_err());
    assert_eq!(*heard.borrow(), 0);
    proxy.set(Weather::default());
    assert_eq!(stream.read_u8().await.unwrap(), b'x');
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_stalled_does_not_pass_after_a_cut() {
    let (proxy, mut heard) = proxy().await;
    for round in 1..=50 {
        proxy.set(flowing(Flow::Passes, Flow::Stalls));
        let mut stream = client(&proxy).await;
        stream.write_all(b"x").await.unwrap();
        heard.wait_for(|bytes| *bytes == round).await.unwrap();
        // The answer is on its way.
        tokio::time::sleep(Duration::from_millis(5)).await;
        proxy.cut();
        proxy.set(Weather::default());
        let error = stream.read_u8().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    }
}

#[tokio::test]
async fn an_answer_can_vanish_after_its_request_was_heard() {
    let (proxy, mut heard) = proxy().await;
    let mut stream = client(&proxy).await;
    ask(&mut stream).await.unwrap();
    proxy.set(flowing(Flow::Passes, Flow::Vanishes));
    stream.write_all(b"x").await.unwrap();
    heard.wait_for(|bytes| *bytes == 2).await.unwrap();
    let waiting = tokio::time::timeout(Duration::from_millis(50), stream.read_u8());
    assert!(waiting.await.is_err());
    proxy.set(Weather::default());
    let waiting = tokio::time::timeout(Duration::from_millis(50), ask(&mut stream));
    assert!(waiting.await.is_err(), "it would hear the end of an answer");
    assert_eq!(ask(&mut client(&proxy).await).await.unwrap(), b'x');
}

#[tokio::test]
async fn a_silenced_connection_stays_silent_and_new_ones_work() {
    let (proxy, heard) = proxy().await;
    let mut stream = client(&proxy).await;
    ask(&mut stream).await.unwrap();
    proxy.silence();
    let waiting = tokio::time::timeout(Duration::from_millis(50), ask(&mut stream));
    assert!(waiting.await.is_err());
    assert_eq!(*heard.borrow(), 1);
    assert_eq!(ask(&mut client(&proxy).await).await.unwrap(), b'x');
}

#[tokio::test]
async fn a_delay_holds_each_piece_back() {
    let (proxy, _) = proxy().await;
    let delay = Duration::from_millis(40);
    proxy.set(Weather {
        to_client: Way {
            delay,
            ..Way::default()
        },
        ..Weather::default()
    });
    let mut stream = client(&proxy).await;
    let begin = Instant::now();
    ask(&mut stream).await.unwrap();
    assert!(begin.elapsed() >= delay);
}

#[tokio::test]
async fn a_distance_delays_each_byte_once_however_many_are_in_flight() {
    const BYTES: usize = 40;
    let (target, _) = echo().await;
    let distance = Duration::from_millis(30);
    let address = "127.0.0.1:0".parse().unwrap();
    let proxy = FaultProxy::start_at(address, target, distance, 1).await;
    let mut stream = client(&proxy).await;
    let begin = Instant::now();
    for _ in 0..BYTES {
        stream.write_all(b"x").await.unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    stream.read_exact(&mut [0; BYTES]).await.unwrap();
    let took = begin.elapsed();
    assert!(took >= 2 * distance, "{took:?}");
    assert!(took < BYTES as u32 * distance, "{took:?}");
}

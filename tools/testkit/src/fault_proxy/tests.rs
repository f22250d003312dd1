//! Each kind of weather, cuts and silence.

use std::time::Instant;

use super::*;

/// Starts an echo server. Returns its address, and the number of bytes received.
async fn echo() -> (SocketAddr, watch::Receiver<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (received, hearing) = watch::channel(0);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let received = received.clone();
            tokio::spawn(async move {
                let mut buffer = [0; 64];
                while let Ok(read @ 1..) = stream.read(&mut buffer).await {
                    received.send_modify(|bytes| *bytes += read);
                    stream.write_all(&buffer[..read]).await.unwrap();
                }
            });
        }
    });
    (address, hearing)
}

async fn proxy() -> (FaultProxy, watch::Receiver<usize>) {
    let (target, received) = echo().await;
    (FaultProxy::start(target, 1).await, received)
}

async fn client(proxy: &FaultProxy) -> TcpStream {
    TcpStream::connect(proxy.address()).await.unwrap()
}

async fn ask(stream: &mut TcpStream) -> io::Result<u8> {
    stream.write_all(b"x").await?;
    stream.read_u8().await
}

fn flowing(to_server: ForwardMode, to_client: ForwardMode) -> NetworkConditions {
    let way = |flow| DirectionConditions {
        mode: flow,
        ..DirectionConditions::default()
    };
    NetworkConditions {
        to_server: way(to_server),
        to_client: way(to_client),
        resets_connections: false,
    }
}

#[tokio::test]
async fn bytes_pass_and_a_cut_resets_both_sides() {
    let (proxy, _) = proxy().await;
    let mut stream = client(&proxy).await;
    assert_eq!(ask(&mut stream).await.unwrap(), b'x');
    proxy.cut();
    let error = stream.read_u8().await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    assert_eq!(ask(&mut client(&proxy).await).await.unwrap(), b'x');
}

#[tokio::test]
async fn a_refusing_proxy_resets_only_new_connections() {
    let (proxy, _) = proxy().await;
    let mut old = client(&proxy).await;
    ask(&mut old).await.unwrap();
    proxy.set(NetworkConditions {
        resets_connections: true,
        ..NetworkConditions::default()
    });
    assert!(ask(&mut client(&proxy).await).await.is_err());
    assert_eq!(ask(&mut old).await.unwrap(), b'x');
}

#[tokio::test]
async fn stalled_bytes_arrive_after_the_stall() {
    let (proxy, received) = proxy().await;
    proxy.set(flowing(ForwardMode::Stalls, ForwardMode::Passes));
    let mut stream = client(&proxy).await;
    stream.write_all(b"x").await.unwrap();
    let waiting = tokio::time::timeout(Duration::from_millis(50), stream.read_u8());
    assert!(waiting.await.is_err());
    assert_eq!(*received.borrow(), 0);
    proxy.set(NetworkConditions::default());
    assert_eq!(stream.read_u8().await.unwrap(), b'x');
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stalled_bytes_do_not_pass_after_a_cut() {
    let (proxy, mut received) = proxy().await;
    for round in 1..=50 {
        proxy.set(flowing(ForwardMode::Passes, ForwardMode::Stalls));
        let mut stream = client(&proxy).await;
        stream.write_all(b"x").await.unwrap();
        received.wait_for(|bytes| *bytes == round).await.unwrap();
        // The answer is in flight.
        tokio::time::sleep(Duration::from_millis(5)).await;
        proxy.cut();
        proxy.set(NetworkConditions::default());
        let error = stream.read_u8().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    }
}

#[tokio::test]
async fn an_answer_can_be_dropped_after_its_request_arrived() {
    let (proxy, mut received) = proxy().await;
    let mut stream = client(&proxy).await;
    ask(&mut stream).await.unwrap();
    proxy.set(flowing(ForwardMode::Passes, ForwardMode::Vanishes));
    stream.write_all(b"x").await.unwrap();
    received.wait_for(|bytes| *bytes == 2).await.unwrap();
    let waiting = tokio::time::timeout(Duration::from_millis(50), stream.read_u8());
    assert!(waiting.await.is_err());
    proxy.set(NetworkConditions::default());
    let waiting = tokio::time::timeout(Duration::from_millis(50), ask(&mut stream));
    assert!(waiting.await.is_err(), "the connection stays mute");
    assert_eq!(ask(&mut client(&proxy).await).await.unwrap(), b'x');
}

#[tokio::test]
async fn a_silenced_connection_stays_silent_and_new_ones_work() {
    let (proxy, received) = proxy().await;
    let mut stream = client(&proxy).await;
    ask(&mut stream).await.unwrap();
    proxy.make_half_open();
    let waiting = tokio::time::timeout(Duration::from_millis(50), ask(&mut stream));
    assert!(waiting.await.is_err());
    assert_eq!(*received.borrow(), 1);
    assert_eq!(ask(&mut client(&proxy).await).await.unwrap(), b'x');
}

#[tokio::test]
async fn a_delay_applies_to_each_piece() {
    let (proxy, _) = proxy().await;
    let delay = Duration::from_millis(40);
    proxy.set(NetworkConditions {
        to_client: DirectionConditions {
            delay,
            ..DirectionConditions::default()
        },
        ..NetworkConditions::default()
    });
    let mut stream = client(&proxy).await;
    let begin = Instant::now();
    ask(&mut stream).await.unwrap();
    assert!(begin.elapsed() >= delay);
}

#[tokio::test]
async fn a_limited_rate_delays_bytes_by_their_number() {
    const BYTES: usize = 64 * 1024;
    let (proxy, _) = proxy().await;
    proxy.set(NetworkConditions {
        to_server: DirectionConditions {
            bytes_per_second: Some(4 * BYTES as u32),
            ..DirectionConditions::default()
        },
        ..NetworkConditions::default()
    });
    let mut stream = client(&proxy).await;
    let begin = Instant::now();
    stream.write_all(&[0; BYTES]).await.unwrap();
    stream.read_exact(&mut [0; BYTES]).await.unwrap();
    let took = begin.elapsed() + CATCH_UP_MAX;
    assert!(took >= Duration::from_millis(250), "{took:?}");
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

//! A minimal Redis client, for the few commands that tools send.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// A blocking connection to a server. Each I/O operation may take 5 s.
#[derive(Debug)]
pub struct BlockingClient {
    stream: TcpStream,
    answers: BufReader<TcpStream>,
}

impl BlockingClient {
    /// Connects, and logs in with a password, or with a user and a password.
    ///
    /// # Errors
    /// The server is unreachable, or refuses the login.
    pub fn connect(address: impl ToSocketAddrs, login: &[&str]) -> io::Result<Self> {
        let address = address.to_socket_addrs()?.next();
        let address = address.ok_or(io::ErrorKind::AddrNotAvailable)?;
        let stream = TcpStream::connect_timeout(&address, ANSWER_LIMIT)?;
        stream.set_read_timeout(Some(ANSWER_LIMIT))?;
        stream.set_write_timeout(Some(ANSWER_LIMIT))?;
        let answers = BufReader::new(stream.try_clone()?);
        let mut conversation = Self { stream, answers };
        if !login.is_empty() {
            conversation.query(&[&["AUTH"][..], login].concat())?;
        }
        Ok(conversation)
    }

    /// Sends a command and reads its answer, which must be a string or an integer.
    ///
    /// # Errors
    /// The connection fails, or the server answers an error.
    pub fn query(&mut self, words: &[&str]) -> io::Result<String> {
        let mut command = format!("*{}\r\n", words.len());
        for word in words {
            command += &format!("${}\r\n{word}\r\n", word.len());
        }
        self.stream.write_all(command.as_bytes())?;
        let mut line = String::new();
        if self.answers.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let line = line.trim_end();
        match line.split_at_checked(1) {
            Some(("+" | ":", text)) => Ok(text.to_owned()),
            Some(("$", size)) => self.text(size),
            _ => {
                let request = words.join(" ");
                Err(io::Error::other(format!("{request}: {line}")))
            }
        }
    }

    fn text(&mut self, size: &str) -> io::Result<String> {
        let size: u64 = size.parse().map_err(io::Error::other)?;
        let mut text = String::new();
        (&mut self.answers)
            .take(size + 2)
            .read_to_string(&mut text)?;
        Ok(text.trim_end().to_owned())
    }
}

//! Kafka: one node that is broker and controller (KRaft), run by the Java on PATH.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tidegate_local_program::command;

use crate::kafka_wire::{
    self, API_VERSIONS, CREATE_TOPICS, TOPIC_EXISTS, create_topic_request, topic_error,
};
use crate::ports::BrokerPorts;
use crate::tls::BrokerCertificate;

const JAVA_MIN: u32 = 17;
const INSTALL: &str = "install Java 17 or later and Maven (Debian: openjdk-17-jre-headless maven)";
const VERSION_LIMIT: Duration = Duration::from_secs(30);
const FETCH_LIMIT: Duration = Duration::from_secs(600);
const FORMAT_LIMIT: Duration = Duration::from_secs(60);
const ANSWER_LIMIT: Duration = Duration::from_secs(10);
const PARTITIONS: i32 = 3;
const CLUSTER: &str = "dGlkZWdhdGUtYnJva2VycA";

/// The packages that Maven resolves. Without the second, Kafka logs nothing.
const POM: &str = r#"<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>private</groupId>
  <artifactId>broker</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>kafka_2.13</artifactId>
      <version>4.1.0</version>
    </dependency>
    <dependency>
      <groupId>org.apache.logging.log4j</groupId>
      <artifactId>log4j-slf4j-impl</artifactId>
      <version>2.24.3</version>
    </dependency>
  </dependencies>
</project>
"#;

/// Fills an empty folder with the program and its dependencies, by Maven, which has a separate cache too.
pub(crate) fn fetch(folder: &Path, progress: &mut dyn FnMut(&str)) -> Result<(), String> {
    check_java()?;
    if !command::is_on_path("mvn") {
        return Err(format!("mvn not found: {INSTALL}"));
    }
    fs::write(folder.join("pom.xml"), POM).map_err(|error| format!("writing pom.xml: {error}"))?;
    progress("resolving Kafka with Maven (45 MB)");
    let mut maven = Command::new("mvn");
    maven.current_dir(folder).args([
        "--batch-mode",
        "--quiet",
        "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies",
        "-DoutputDirectory=jars",
        "-DincludeScope=runtime",
    ]);
    command::run(&mut maven, FETCH_LIMIT).map(drop)
}

/// Returns the folder if Kafka is in it, and Java can run it.
pub(crate) fn check(folder: &Path) -> Result<PathBuf, String> {
    let mut jars = fs::read_dir(folder.join("jars")).map_err(|_| "no Kafka in it".to_owned())?;
    let is_kafka = |name: &str| name.starts_with("kafka_") && name.ends_with(".jar");
    if !jars.any(|jar| jar.is_ok_and(|jar| is_kafka(&jar.file_name().to_string_lossy()))) {
        return Err("no Kafka in it".to_owned());
    }
    check_java()?;
    Ok(folder.to_owned())
}

fn check_java() -> Result<(), String> {
    let version = command::run(Command::new("java").arg("--version"), VERSION_LIMIT);
    let version = version.map_err(|reason| format!("{reason}: {INSTALL}"))?;
    // Such as `openjdk 17.0.15 2025-04-15`.
    let number = version.split_whitespace().nth(1).unwrap_or_default();
    let major = number
        .split(['.', '-', '+'])
        .next()
        .and_then(|major| major.parse().ok());
    match major {
        Some(major) if JAVA_MIN <= major => Ok(()),
        _ => Err(format!("the java on PATH is {number:?}: {INSTALL}")),
    }
}

/// Writes the settings into `folder`, formats its storage once, and returns the command that runs the broker.
pub(crate) fn command(
    program: &Path,
    folder: &Path,
    ports: BrokerPorts,
    certificate: Option<&BrokerCertificate>,
) -> Result<Command, String> {
    let settings = folder.join("server.properties");
    let mut text = settings_of(folder, ports, certificate.is_some());
    let written = match certificate {
        Some(certificate) => add_certificate(&mut text, folder, certificate),
        None => Ok(()),
    };
    written
        .and_then(|()| fs::write(&settings, text))
        .map_err(|error| format!("writing the settings: {error}"))?;
    if !folder.join("data/meta.properties").exists() {
        let mut format = java(program);
        format.args(["kafka.tools.StorageTool", "format", "--cluster-id", CLUSTER]);
        format.arg("--config").arg(&settings);
        command::run(&mut format, FORMAT_LIMIT)?;
    }
    let mut command = java(program);
    command.arg("kafka.Kafka").arg(settings).current_dir(folder);
    Ok(command)
}

/// A small Java machine that starts fast.
fn java(program: &Path) -> Command {
    let mut jars = OsString::from(program.join("jars"));
    jars.push("/*");
    let mut command = Command::new("java");
    command.args([
        "-Xmx256m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-Dlog4j2.level=INFO",
        "-Djava.awt.headless=true",
        "-cp",
    ]);
    command.arg(jars);
    command
}

fn settings_of(folder: &Path, ports: BrokerPorts, has_tls: bool) -> String {
    let BrokerPorts {
        clients,
        tls,
        nodes,
        ..
    } = ports;
    let data = folder.join("data").display().to_string();
    let mut listeners = format!("PLAINTEXT://127.0.0.1:{clients}");
    if has_tls {
        listeners.push_str(&format!(",SSL://127.0.0.1:{tls}"));
    }
    format!(
        "process.roles=broker,controller\nnode.id=1\n\
         controller.quorum.voters=1@127.0.0.1:{nodes}\n\
         controller.listener.names=CONTROLLER\n\
         listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SSL:SSL,CONTROLLER:PLAINTEXT\n\
         listeners={listeners},CONTROLLER://127.0.0.1:{nodes}\n\
         advertised.listeners={listeners}\n\
         log.dirs={data}\n\
         auto.create.topics.enable=false\n\
         num.network.threads=1\nnum.io.threads=2\nnum.recovery.threads.per.data.dir=1\n\
         offsets.topic.num.partitions=1\noffsets.topic.replication.factor=1\n\
         group.initial.rebalance.delay.ms=0\n"
    )
}

/// Adds the certificate to the settings. Kafka wants it in one file with its key.
fn add_certificate(
    settings: &mut String,
    folder: &Path,
    BrokerCertificate { certificate, key }: &BrokerCertificate,
) -> io::Result<()> {
    let both = folder.join("certificate.pem");
    fs::write(
        &both,
        fs::read_to_string(key)? + &fs::read_to_string(certificate)?,
    )?;
    settings.push_str(&format!(
        "ssl.keystore.type=PEM\nssl.keystore.location={}\n",
        both.display()
    ));
    Ok(())
}

/// A broker that is up answers which versions of its requests it knows.
pub(crate) fn probe(connection: &mut TcpStream) -> Result<(), String> {
    let asked = connection
        .set_read_timeout(Some(ANSWER_LIMIT))
        .and_then(|()| kafka_wire::ask(connection, API_VERSIONS, &[]));
    match asked {
        Ok(answer) if answer.starts_with(&[0, 0]) => Ok(()),
        Ok(_) => Err("the broker refuses requests".to_owned()),
        Err(error) => Err(format!("no answer: {error}")),
    }
}

/// Makes a topic with three partitions, unless there is one of this name. A broker that has just started has no room
/// for partitions until the controller knows it.
pub(crate) fn make_topic(
    address: SocketAddr,
    name: &str,
    settings: &[(&str, &str)],
) -> Result<(), String> {
    let ask = || -> std::io::Result<Vec<u8>> {
        let mut connection = TcpStream::connect(address)?;
        connection.set_read_timeout(Some(ANSWER_LIMIT))?;
        let request = create_topic_request(name, PARTITIONS, settings);
        kafka_wire::ask(&mut connection, CREATE_TOPICS, &request)
    };
    let answer = ask().map_err(|error| error.to_string())?;
    match topic_error(&answer) {
        Some(0 | TOPIC_EXISTS) => Ok(()),
        code => Err(format!("Kafka refuses it: error {code:?}")),
    }
}

//! One core's machinery: executor, ring, sockets, files, mailboxes, timers. The only crate that
//! names glommio or io_uring and the only one with unsafe code. Knows nothing of Kafka.

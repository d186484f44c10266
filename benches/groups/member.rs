//! What members by both protocols share: a place, a connection, the wait for the next heartbeat. Knows no
//! request of groups.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use client::direct::{Connection, Error};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};
use wire::ErrorCode;
use wire::request::Request;
use wire::response::Response;

use crate::board::{Board, Place};
use crate::options::Options;
use crate::random::Random;

/// From a refusal that is not a part of rebalances, or from a broken connection, to the next attempt.
const PAUSE: Duration = Duration::from_millis(100);

/// What all members of the process share.
pub struct Shared {
    pub options: Options,
    pub board: RefCell<Board>,
    /// Every group is stable: somebody may wait for that.
    pub stable: Notify,
    /// Members are to leave the step that a common start has put them in, once.
    pub spread: Cell<bool>,
    pub random: RefCell<Random>,
}

/// Why a membership is over: the member joins again.
#[derive(Debug)]
pub enum Ended {
    /// The broker says so.
    Refused(ErrorCode),
    /// The connection is gone.
    Broken(Error),
    /// The storm says so, and the member has left.
    Told,
}

impl From<Error> for Ended {
    fn from(error: Error) -> Self {
        Self::Broken(error)
    }
}

/// One member's way to its group.
pub struct Member {
    pub shared: Rc<Shared>,
    pub place: Place,
    connection: Connection,
    /// The storm's word to leave and join again.
    told: Rc<Notify>,
    /// It is out of the common step.
    spread: bool,
}

impl Member {
    /// A member that has not joined.
    pub async fn connect(
        shared: &Rc<Shared>,
        place: Place,
        told: Rc<Notify>,
    ) -> Result<Self, Error> {
        let mut connection = Connection::connect(shared.options.broker).await?;
        // As each client does; also, who connects and says nothing is closed.
        connection.api_versions().await?;
        Ok(Self {
            shared: shared.clone(),
            place,
            connection,
            told,
            spread: false,
        })
    }

    /// Sends a request and waits for its answer.
    pub async fn call(&mut self, version: i16, request: &Request) -> Result<Response, Error> {
        self.connection.call(version, request).await
    }

    /// The same of a heartbeat, which is timed.
    pub async fn beat(&mut self, version: i16, request: &Request) -> Result<Response, Error> {
        let begun = Instant::now();
        let answer = self.connection.call(version, request).await?;
        self.shared.board.borrow_mut().beat(begun.elapsed());
        Ok(answer)
    }

    /// It has an assignment.
    pub fn has(&self, generation: i32, partitions: &[i32]) {
        let mut board = self.shared.board.borrow_mut();
        if board.has(self.place, generation, partitions) {
            self.shared.stable.notify_one();
        }
    }

    /// It has none any more.
    pub fn has_nothing(&self) {
        self.shared.board.borrow_mut().has_nothing(self.place);
    }

    /// Waits until the next heartbeat is due; says whether the member was told to leave meanwhile.
    pub async fn is_told_before(&mut self, interval: Duration) -> bool {
        let mut wait = interval;
        if self.shared.spread.get() && !self.spread {
            self.spread = true;
            wait = wait.mul_f64(self.shared.random.borrow_mut().share());
        }
        let due = Instant::now() + wait;
        tokio::select! {
            () = sleep_until(due) => false,
            () = self.told.notified() => true,
        }
    }

    /// Takes note of why it is no member any more, and waits where trying again at once does not help.
    pub async fn recover(&mut self, ended: Ended) {
        match ended {
            Ended::Told => self.shared.board.borrow_mut().left(),
            Ended::Refused(error) => {
                self.shared.board.borrow_mut().refused(error);
                let at_once = [
                    ErrorCode::RebalanceInProgress,
                    ErrorCode::IllegalGeneration,
                    ErrorCode::UnknownMemberId,
                    ErrorCode::FencedMemberEpoch,
                ];
                if !at_once.contains(&error) {
                    sleep(PAUSE).await;
                }
            }
            Ended::Broken(error) => {
                self.shared.board.borrow_mut().broke();
                eprintln!("{:?}: {error}", self.place);
                self.connect_again().await;
            }
        }
    }

    async fn connect_again(&mut self) {
        loop {
            sleep(PAUSE).await;
            let connected = Self::connect(&self.shared, self.place, self.told.clone()).await;
            if let Ok(Self { connection, .. }) = connected {
                self.connection = connection;
                return;
            }
        }
    }
}

/// The error in an answer, if there is one.
pub fn checked(code: i16) -> Result<(), Ended> {
    match ErrorCode::from(code) {
        ErrorCode::None => Ok(()),
        error => Err(Ended::Refused(error)),
    }
}

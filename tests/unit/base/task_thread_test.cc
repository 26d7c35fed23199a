// Goal: tasks run on a separate thread, and a blocked one delays neither the owner nor the end of
// the process. Method: tasks that wait until the test releases them.
#include "base/linux/task_thread.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>

namespace fairlead {
namespace {

class Probe : public Task {
 public:
  explicit Probe(std::atomic<int>& runs, bool returns = true) : runs_(&runs), returns_(returns) {}
  bool run() noexcept override {
    thread = std::this_thread::get_id();
    ++*runs_;
    return returns_;
  }
  std::thread::id thread;

 private:
  std::atomic<int>* runs_;
  bool returns_;
};

struct Gate {
  std::promise<void> begun, open, left;
};

class Blocked : public Task {
 public:
  explicit Blocked(std::shared_ptr<Gate> gate) : gate_(std::move(gate)) {}
  ~Blocked() override { gate_->left.set_value(); }
  bool run() noexcept override {
    gate_->begun.set_value();
    gate_->open.get_future().wait();
    return false;
  }

 private:
  std::shared_ptr<Gate> gate_;
};

bool post(TaskThread& thread, std::unique_ptr<Task> task) {
  thread.post(task);
  return task == nullptr;
}

class TaskThreadTest : public testing::Test {
 protected:
  void block(TaskThread& thread) {
    ASSERT_TRUE(post(thread, std::make_unique<Blocked>(gate_)));
    gate_->begun.get_future().wait();
  }
  void unblock() {
    gate_->open.set_value();
    gate_->left.get_future().wait();
  }
  std::atomic<int> runs_{0};
  const std::shared_ptr<Gate> gate_ = std::make_shared<Gate>();
};

TEST_F(TaskThreadTest, RunsOnAnotherThreadInTheOrderOfPosting) {
  TaskThread::Tasks done;
  {
    TaskThread thread(8);
    for (int i = 0; i < 5; ++i) ASSERT_TRUE(post(thread, std::make_unique<Probe>(runs_)));
    while (done.size() < 5)
      for (auto& task : thread.take_done()) done.push_back(std::move(task));
  }
  EXPECT_EQ(runs_, 5);
  for (const auto& task : done)
    EXPECT_NE(static_cast<Probe&>(*task).thread, std::this_thread::get_id());
}

TEST_F(TaskThreadTest, EndsAfterWhatWaits) {
  {
    TaskThread thread(64);
    for (int i = 0; i < 64; ++i) ASSERT_TRUE(post(thread, std::make_unique<Probe>(runs_, false)));
  }
  EXPECT_EQ(runs_, 64);
}

TEST_F(TaskThreadTest, RefusesMoreThanItsLimitWhileOneBlocks) {
  TaskThread thread(3);
  EXPECT_EQ(thread.running_for(std::chrono::steady_clock::now()), Duration::zero());
  block(thread);
  EXPECT_TRUE(post(thread, std::make_unique<Probe>(runs_)));
  EXPECT_TRUE(post(thread, std::make_unique<Probe>(runs_)));
  EXPECT_FALSE(post(thread, std::make_unique<Probe>(runs_)));
  EXPECT_GT(thread.running_for(std::chrono::steady_clock::now() + std::chrono::seconds(2)),
            std::chrono::seconds(1));
  EXPECT_EQ(thread.take_waiting().size(), 2u);
  EXPECT_TRUE(post(thread, std::make_unique<Probe>(runs_, false)));
  unblock();
}

TEST_F(TaskThreadTest, CallsOffWhatHasNotBegun) {
  std::atomic<int> called_off{0}, kept{0};
  TaskThread thread(4);
  std::unique_ptr<Task> first = std::make_unique<Blocked>(gate_);
  std::unique_ptr<Task> second = std::make_unique<Probe>(called_off);
  std::unique_ptr<Task> third = std::make_unique<Probe>(kept);
  const std::uint64_t running = thread.post(first), waiting = thread.post(second);
  thread.post(third);
  gate_->begun.get_future().wait();
  EXPECT_EQ(thread.call_off(running), TaskThread::CallOff::kRunning);
  EXPECT_EQ(thread.call_off(waiting), TaskThread::CallOff::kDone);
  gate_->open.set_value();
  TaskThread::Tasks done;
  while (done.empty()) done = thread.take_done();
  EXPECT_EQ(thread.call_off(running), TaskThread::CallOff::kTooLate);
  EXPECT_EQ(thread.call_off(waiting), TaskThread::CallOff::kTooLate);
  EXPECT_EQ(called_off, 0);
  EXPECT_EQ(kept, 1);
}

TEST_F(TaskThreadTest, ABlockedErrandDoesNotHoldUpTheEnd) {
  {
    TaskThread thread(3);
    block(thread);
    ASSERT_TRUE(post(thread, std::make_unique<Probe>(runs_)));
  }
  unblock();  // would never come if the destructor waited for the task
  EXPECT_EQ(runs_, 0);
}

}  // namespace
}  // namespace fairlead

// Runs the built program, which lies in the build folder above the tests.
#pragma once

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace peerbed::test {

struct ProgramResult {
  int code = -1;
  std::string out, err;
};

inline std::string program_path() { return (std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path() / "peerbed").string(); }

inline std::string slurp(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

/// Starts it in `folder`, its output in files there.
inline pid_t start_program(const std::string& folder, std::vector<std::string> words) {
  words.insert(words.begin(), program_path());
  const pid_t pid = fork();
  if (pid == 0) {
    if (chdir(folder.c_str()) != 0) _exit(99);
    const int out = open("stdout.txt", O_CREAT | O_TRUNC | O_WRONLY, 0600), err = open("stderr.txt", O_CREAT | O_TRUNC | O_WRONLY, 0600);
    dup2(out, 1);
    dup2(err, 2);
    setenv("PEERBED_ROOT", PEERBED_SOURCE_DIR, 1);
    std::vector<char*> argv;
    for (auto& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    execv(argv[0], argv.data());
    _exit(98);
  }
  return pid;
}

inline ProgramResult run_program(const std::string& folder, std::vector<std::string> words) {
  int status = 0;
  waitpid(start_program(folder, std::move(words)), &status, 0);
  ProgramResult result;
  result.code = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  result.out = slurp(folder + "/stdout.txt");
  result.err = slurp(folder + "/stderr.txt");
  return result;
}

/// A folder that goes away with the test.
class ScratchFolder {
 public:
  ScratchFolder() {
    static int count = 0;
    path_ = std::filesystem::temp_directory_path() / ("peerbed-test-" + std::to_string(getpid()) + "-" + std::to_string(count++));
    std::filesystem::create_directories(path_);
  }
  ~ScratchFolder() { std::filesystem::remove_all(path_); }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  [[nodiscard]] std::string path() const { return path_.string(); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name) << text;
    return name;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace peerbed::test

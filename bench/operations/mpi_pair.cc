// Two ranks of MPI, measured as mtperf measures: half of the way to and fro of a message, and bytes
// a second with several under way. One line of JSON from rank 0. bench/operations/run starts it.
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

constexpr int kWindow = 64;
constexpr int kWarmUp = 100;
constexpr int kLook = 50;  // at the clock, once in so many

/// Microseconds of one way: median of all.
double latency(int rank, int size, double seconds) {
  std::vector<char> data(static_cast<std::size_t>(size));
  std::vector<double> times;
  char go_on = 1;
  for (int n = 0; go_on != 0; ++n) {
    const double begin = MPI_Wtime();
    if (rank == 0) {
      MPI_Send(data.data(), size, MPI_CHAR, 1, 1, MPI_COMM_WORLD);
      MPI_Recv(data.data(), size, MPI_CHAR, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
      MPI_Recv(data.data(), size, MPI_CHAR, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      MPI_Send(data.data(), size, MPI_CHAR, 0, 1, MPI_COMM_WORLD);
    }
    if (n >= kWarmUp) times.push_back((MPI_Wtime() - begin) / 2 * 1e6);
    if (n % kLook != 0) continue;
    static const double start = MPI_Wtime();
    go_on = static_cast<char>(MPI_Wtime() - start < seconds || n < 2 * kWarmUp);
    MPI_Bcast(&go_on, 1, MPI_CHAR, 0, MPI_COMM_WORLD);
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

/// Bytes a second from rank 0 to rank 1.
double bandwidth(int rank, int size, double seconds) {
  std::vector<char> data(static_cast<std::size_t>(size));
  std::vector<MPI_Request> requests(kWindow);
  char go_on = 1;
  double bytes = 0;
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = MPI_Wtime();
  while (go_on != 0) {
    for (MPI_Request& request : requests) {
      if (rank == 0) {
        MPI_Isend(data.data(), size, MPI_CHAR, 1, 1, MPI_COMM_WORLD, &request);
      } else {
        MPI_Irecv(data.data(), size, MPI_CHAR, 0, 1, MPI_COMM_WORLD, &request);
      }
    }
    MPI_Waitall(kWindow, requests.data(), MPI_STATUSES_IGNORE);
    bytes += static_cast<double>(kWindow) * size;
    go_on = static_cast<char>(MPI_Wtime() - start < seconds);
    MPI_Bcast(&go_on, 1, MPI_CHAR, 0, MPI_COMM_WORLD);
  }
  return bytes / (MPI_Wtime() - start);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  int ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (argc != 4 || ranks != 2) {
    std::fputs("usage: mpirun -n 2 mpi_pair latency|bandwidth BYTES SECONDS\n", stderr);
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  const bool to_and_fro = std::string(argv[1]) == "latency";
  const int size = std::atoi(argv[2]);
  const double seconds = std::atof(argv[3]);
  const double value = to_and_fro ? latency(rank, size, seconds) : bandwidth(rank, size, seconds);
  if (rank == 0) std::printf("{\"%s\": %.9g}\n", to_and_fro ? "us" : "bytes_per_second", value);
  MPI_Finalize();
}

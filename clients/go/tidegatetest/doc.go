// Package tidegatetest is for tests of programs that use Tidegate.
//
// [Fake] is a server in memory with a clock that a test moves. Clients of it are real clients:
//
//	fake := tidegatetest.NewFake()
//	shop := NewShop(fake.Client())
//	shop.PlaceOrder(ctx, 17)
//	fake.Advance(30 * time.Minute)
//	fake.RunDue(ctx, shop.Worker())
//
// [StartServer] starts a real server with a private Redis.
package tidegatetest
